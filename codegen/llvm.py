"""A thin layer over llvmlite: LLVM IR text to machine code, and machine code into this process.

The only module that imports llvmlite. Faults that LLVM reports are raised as ``BuildError``. Some faults
inside LLVM end the process instead, so code that is not trusted is compiled in a child process.
"""

import importlib.metadata
import itertools
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import llvmlite
import llvmlite.binding as llvm

from tunesmith.ir.errors import TunesmithError

__all__ = [
    "PASSES",
    "BuildError",
    "LoadedCode",
    "assembly",
    "compile_ir",
    "host",
    "llvm_version",
    "load_object",
    "load_openmp",
    "optimised_ir",
]

PASSES = ("sroa", "instcombine")
"""The default pipeline: what explicit vector code needs and no more."""

_PASS_METHODS = {
    "sroa": "add_sroa_pass",
    "instcombine": "add_instruction_combine_pass",
    "simplifycfg": "add_simplify_cfg_pass",
    "gvn": "add_new_gvn_pass",
    "dce": "add_aggressive_dce_pass",
    "dse": "add_dead_store_elimination_pass",
    "reassociate": "add_reassociate_pass",
    "sccp": "add_sccp_pass",
    "inline": "add_always_inliner_pass",
    "loop-rotate": "add_loop_rotate_pass",
    "loop-simplify": "add_loop_simplify_pass",
    "loop-reduce": "add_loop_strength_reduce_pass",
    "loop-unroll": "add_loop_unroll_pass",
}
_HARD_FLOAT_ABI = {"riscv64": "lp64d", "riscv32": "ilp32d"}


class BuildError(TunesmithError):
    """LLVM refused the text, the target or the object code; the message is LLVM's."""


@cache
def _initialise_native() -> None:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()


@cache
def _initialise_all() -> None:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()


@cache
def host() -> tuple[str, str, str]:
    """Triple, CPU name and enabled features (``+a,+b``, sorted) of this machine, as LLVM names them."""
    enabled = sorted(name for name, on in llvm.get_host_cpu_features().items() if on)
    return llvm.get_process_triple(), llvm.get_host_cpu_name(), ",".join(f"+{name}" for name in enabled)


def llvm_version() -> str:
    """Versions of llvmlite and of the LLVM inside it, for records."""
    return f"{llvmlite.__version__} (LLVM {'.'.join(map(str, llvm.llvm_version_info))})"


@cache
def _target(triple: str) -> Any:
    _initialise_native()
    try:
        return llvm.Target.from_triple(triple)
    except RuntimeError:
        _initialise_all()
    try:
        return llvm.Target.from_triple(triple)
    except RuntimeError as e:
        raise BuildError(f"unknown target {triple}: {e}") from None


@cache
def _machine(triple: str, cpu: str, features: str, opt: int) -> Any:
    """Position-independent code in the small model: it serves the JIT and shared libraries alike."""
    abi = _HARD_FLOAT_ABI.get(triple.split("-", 1)[0], "")
    target = _target(triple)
    return target.create_target_machine(
        cpu=cpu, features=features, opt=opt, reloc="pic", codemodel="small", abiname=abi
    )


def _run_passes(module: Any, machine: Any, passes: tuple[str, ...]) -> None:
    unknown = [p for p in passes if p not in _PASS_METHODS]
    if unknown:
        raise ValueError(f"unknown passes {unknown}; known: {sorted(_PASS_METHODS)}")
    if not passes:
        return
    options = llvm.create_pipeline_tuning_options(speed_level=2)
    builder = llvm.create_pass_builder(machine, options)
    manager = llvm.create_new_module_pass_manager()
    for name in passes:
        getattr(manager, _PASS_METHODS[name])()
    manager.run(module, builder)


@contextmanager
def _optimised(text: str, triple: str, machine: Any, passes: tuple[str, ...]) -> Iterator[Any]:
    """The parsed, verified and optimised module; it dies with its own context at the end."""
    with llvm.create_context() as context:
        try:
            module = llvm.parse_assembly(text, context=context)
        except RuntimeError as e:
            raise BuildError(str(e)) from None
        with module:
            module.triple = triple
            module.data_layout = str(machine.target_data)
            try:
                module.verify()
            except RuntimeError as e:
                raise BuildError(f"LLVM IR is not valid: {e}") from None
            _run_passes(module, machine, passes)
            yield module


def compile_ir(
    text: str, triple: str, cpu: str, features: str, *, passes: tuple[str, ...] = PASSES, opt: int = 2
) -> bytes:
    """Object code of a module. ``opt`` is the level of instruction selection and scheduling (0 to 3)."""
    machine = _machine(triple, cpu, features, opt)
    with _optimised(text, triple, machine, passes) as module:
        try:
            code: bytes = machine.emit_object(module)
        except RuntimeError as e:
            raise BuildError(str(e)) from None
    return code


def assembly(
    text: str, triple: str, cpu: str, features: str, *, passes: tuple[str, ...] = PASSES, opt: int = 2
) -> str:
    """Assembly text of a module, compiled as ``compile_ir`` does."""
    machine = _machine(triple, cpu, features, opt)
    with _optimised(text, triple, machine, passes) as module:
        try:
            listing: str = machine.emit_assembly(module)
        except RuntimeError as e:
            raise BuildError(str(e)) from None
    return listing


def optimised_ir(text: str, triple: str, cpu: str, features: str, *, passes: tuple[str, ...] = PASSES) -> str:
    """The module's text after the passes."""
    with _optimised(text, triple, _machine(triple, cpu, features, 2), passes) as module:
        return str(module)


@cache
def _jit() -> Any:
    """One linker for the whole process. JITLink keeps the sections of an object close together."""
    _initialise_native()
    return llvm.create_lljit_compiler(use_jit_link=True, suppress_errors=True)


_library_numbers = itertools.count()


class LoadedCode:
    """Object code linked into this process. Its addresses are valid as long as it lives."""

    def __init__(self, object_code: bytes) -> None:
        self._name = f"ts{next(_library_numbers)}"
        builder = llvm.JITLibraryBuilder().add_object_img(object_code).add_current_process()
        try:
            self._library = builder.link(_jit(), self._name)
        except RuntimeError as e:
            raise BuildError(f"cannot load object code: {e}") from None
        # LLVM unloads code as soon as the tracker of a lookup dies.
        self._trackers: dict[str, Any] = {}

    def address(self, symbol: str) -> int:
        """Address of a function or global; BuildError if it, or anything it needs, is missing."""
        if symbol not in self._trackers:
            try:
                self._trackers[symbol] = _jit().lookup(self._name, symbol)
            except RuntimeError as e:
                raise BuildError(f"cannot link {symbol}: {e}") from None
        return int(self._trackers[symbol][symbol])


def load_object(object_code: bytes) -> LoadedCode:
    """Link object code into this process. Code that calls OpenMP needs ``load_openmp`` first."""
    return LoadedCode(object_code)


def _bundled_openmp() -> Iterator[str]:
    """Copies of libgomp that wheels of this environment carry."""
    for name in ("xgboost-cpu", "xgboost", "scikit-learn"):
        try:
            files = importlib.metadata.distribution(name).files or ()
        except importlib.metadata.PackageNotFoundError:
            continue
        for file in files:
            if "libgomp" in file.name and ".so" in file.name:
                yield str(file.locate())


@cache
def load_openmp() -> str:
    """Load the OpenMP runtime for good, once; its path. The system's copy goes before a wheel's."""
    system = "libomp.dylib" if sys.platform == "darwin" else "libgomp.so.1"
    for path in itertools.chain([system], _bundled_openmp()):
        try:
            llvm.load_library_permanently(path)
        except RuntimeError:
            continue
        return path
    raise BuildError(
        "no OpenMP runtime found: install libgomp (Debian: apt install libgomp1) or use one thread"
    )
