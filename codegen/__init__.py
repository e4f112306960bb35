"""Loop nests to machine code. What needs LLVM is imported when first asked for."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from tunesmith.codegen.binary import Binary, BufferSpec

if TYPE_CHECKING:
    from tunesmith.codegen.builder import build, build_nest, ir_text
    from tunesmith.codegen.llvm import BuildError

__all__ = ["Binary", "BufferSpec", "BuildError", "build", "build_nest", "ir_text"]

_HOMES = {"build": "builder", "build_nest": "builder", "ir_text": "builder", "BuildError": "llvm"}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
