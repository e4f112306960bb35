"""What kernels and their arguments may be called in C and C++: names of programs come from anywhere."""

import re
from collections.abc import Iterable

from tunesmith.codegen.binary import PREPARE, REPEAT, RUN

__all__ = ["argument_names", "symbol_name"]

_MAX_NAME = 100
_KEYWORDS = {
    "alignas", "alignof", "and", "and_eq", "asm", "auto", "bitand", "bitor", "bool", "break", "case", "catch",
    "char", "class", "compl", "concept", "const", "consteval", "constexpr", "constinit", "const_cast",
    "continue", "co_await", "co_return", "co_yield", "decltype", "default", "delete", "do", "double",
    "dynamic_cast", "else", "enum", "explicit", "export", "extern", "false", "float", "for", "friend", "goto",
    "if", "inline", "int", "long", "mutable", "namespace", "new", "noexcept", "not", "not_eq", "nullptr",
    "operator", "or", "or_eq", "private", "protected", "public", "register", "reinterpret_cast", "requires",
    "restrict", "return", "short", "signed", "sizeof", "static", "static_assert", "static_cast", "struct",
    "switch", "template", "this", "thread_local", "throw", "true", "try", "typedef", "typeid", "typename",
    "typeof", "union", "unsigned", "using", "virtual", "void", "volatile", "wchar_t", "while", "xor",
    "xor_eq",
}  # fmt: skip
_TAKEN = _KEYWORDS | {
    RUN, REPEAT, PREPARE, "kernel", "pack", "aligned_alloc", "free", "main", "memset", "memcpy", "memmove",
    "abs", "acos", "asin", "atan", "ceil", "cos", "cosh", "erf", "erfc", "exp", "exp2", "fabs", "floor",
    "fma", "fmax", "fmin", "fmod", "log", "log10", "log2", "pow", "round", "sin", "sinh", "sqrt", "tan",
    "tanh",
    "GOMP_parallel", "omp_get_thread_num", "omp_get_num_threads",
}  # fmt: skip


def symbol_name(text: str) -> str:
    """A C identifier for a kernel, also for a file; names that are free are left as they are."""
    name = re.sub(r"\W", "_", text, flags=re.ASCII)
    if not re.match(r"[A-Za-z_]", name):
        name = f"kernel_{name}"
    name = name[:_MAX_NAME]
    return f"{name}_" if name in _TAKEN else name


def argument_names(names: Iterable[str]) -> dict[str, str]:
    """What each argument is called in a header: as in the program, where C allows it."""
    given = list(names)
    out: dict[str, str] = {}
    for name in given:
        other = name
        while other in _KEYWORDS or other == "packed" or other in {*out.values(), *given} - {name}:
            other += "_"
        out[name] = other
    return out
