"""The layout and the habits that tools do not check, read from the source text."""

import ast
import importlib
import os
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())
LINKS = {p.name: p for p in (ROOT / "src/tunesmith").iterdir() if p.is_symlink()}
PACKAGES = sorted(LINKS)
MODULES = sorted(p for package in PACKAGES for p in (ROOT / package).rglob("*.py"))
MAX_LINES = 600

# Heavy libraries and the packages that may import them; a second place would slow every start.
HOMES = {
    "xgboost": {"costmodel"},
    "llvmlite": {"codegen"},
    "sqlalchemy": {"db"},
    "alembic": {"db"},
    "fastapi": {"service"},
    "starlette": {"service"},
    "uvicorn": {"service"},
    "rich": {"cli"},
}
UNSAFE_CALLS = {"eval", "exec", "compile", "__import__"}
UNSAFE_MODULES = {"pickle", "marshal", "shelve", "dill", "cloudpickle"}


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def imports(path: Path) -> Iterator[str]:
    """Full names of the modules that the file imports, at the top or inside functions."""
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module


def called_names(path: Path) -> set[str]:
    calls = (node.func for node in ast.walk(tree_of(path)) if isinstance(node, ast.Call))
    return {func.id for func in calls if isinstance(func, ast.Name)}


def is_migration(path: Path) -> bool:
    """Alembic loads these by path; they are scripts, not modules that others import."""
    return "migrations" in path.parts


def offenders(found: dict[Path, set[str]]) -> dict[str, list[str]]:
    return {name_of(path): sorted(names) for path, names in found.items() if names}


def test_every_folder_of_modules_is_a_package() -> None:
    folders = {p.parent.name for p in ROOT.glob("*/__init__.py")}
    assert folders == set(PACKAGES)


def test_links_point_to_the_folders() -> None:
    assert {name: os.readlink(path) for name, path in LINKS.items()} == {n: f"../../{n}" for n in PACKAGES}


def test_the_build_names_every_package() -> None:
    """A folder that is missing in one of these lists is missing in the wheel or the sdist, without a word."""
    targets = PROJECT["tool"]["hatch"]["build"]["targets"]
    expected = {name: f"tunesmith/{name}" for name in PACKAGES} | {"src/tunesmith": "tunesmith"}
    assert targets["wheel"]["sources"] == expected
    base = {"src/tunesmith/__init__.py", "src/tunesmith/py.typed"}
    assert set(targets["wheel"]["only-include"]) == base | set(PACKAGES)
    assert set(targets["sdist"]["only-include"]) == base | set(PACKAGES) | {"tests", "README.md", "LICENSE"}


def test_ruff_bans_every_bare_import() -> None:
    banned = PROJECT["tool"]["ruff"]["lint"]["flake8-tidy-imports"]["banned-api"]
    assert set(banned) == set(PACKAGES)


def test_imports_name_the_whole_package() -> None:
    """`import search` makes a second identity of a module, and isinstance fails between the two."""
    bare = {path: {n for n in imports(path) if n.split(".")[0] in PACKAGES} for path in MODULES}
    assert offenders(bare) == {}


def test_heavy_libraries_stay_at_home() -> None:
    def strays(path: Path) -> set[str]:
        package = path.relative_to(ROOT).parts[0]
        used = {name.split(".")[0] for name in imports(path)}
        return {name for name in used if package not in HOMES.get(name, {package})}

    assert offenders({path: strays(path) for path in MODULES}) == {}


def test_no_code_from_data() -> None:
    """Text of users, records and messages is parsed, never run; and nothing is unpickled."""

    def unsafe(path: Path) -> set[str]:
        return called_names(path) & UNSAFE_CALLS | {n.split(".")[0] for n in imports(path)} & UNSAFE_MODULES

    assert offenders({path: unsafe(path) for path in MODULES}) == {}


def test_only_the_cli_writes_to_the_terminal() -> None:
    others = (path for path in MODULES if path.relative_to(ROOT).parts[0] != "cli")
    assert offenders({path: called_names(path) & {"print"} for path in others}) == {}


def test_files_stay_small() -> None:
    lengths = {name_of(p): len(p.read_text(encoding="utf-8").splitlines()) for p in MODULES}
    assert {name: n for name, n in lengths.items() if n > MAX_LINES} == {}


@pytest.mark.parametrize("package", PACKAGES)
def test_public_names_are_listed(package: str) -> None:
    """`__all__` names what exists, and every public class and function of the module."""
    paths = [p for p in MODULES if p.relative_to(ROOT).parts[0] == package and not is_migration(p)]
    assert offenders({path: wrong_names(path) for path in paths}) == {}


def wrong_names(path: Path) -> set[str]:
    body = tree_of(path).body
    if all(isinstance(node, ast.Expr) for node in body):
        return set()  # empty, or a docstring alone
    listed = exported(body)
    if listed is None:
        return {"no __all__"}
    defined = {n.name for n in body if isinstance(n, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)}
    unlisted = {n for n in defined if not n.startswith("_")} - set(listed)
    twice = {n for n in listed if listed.count(n) > 1}
    module = importlib.import_module("tunesmith." + ".".join(dotted(path)))
    return unlisted | twice | {n for n in listed if not hasattr(module, n)}


def exported(body: list[ast.stmt]) -> list[str] | None:
    for node in body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return list(ast.literal_eval(node.value))
    return None


def dotted(path: Path) -> tuple[str, ...]:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return parts[:-1] if parts[-1] == "__init__" else parts


def test_readme_and_checks_run_the_same_tests() -> None:
    """The README's two set-up commands stay true: the second is what `.ci/run` runs."""
    command = "python -m pytest -q -n 2"
    assert f".venv/bin/{command}" in (ROOT / "README.md").read_text(encoding="utf-8")
    assert f"step {command}\n" in (ROOT / ".ci/run").read_text(encoding="utf-8")
    assert os.access(ROOT / ".ci/run", os.X_OK)
