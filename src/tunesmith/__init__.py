"""Tunesmith: tensor expressions in, the fastest verified kernel for this machine out.

    program = tunesmith.parse(text)             or tunesmith.ops.matmul(512, 512, 512), or @tunesmith.kernel
    result = tunesmith.tune(program, trials=64)
    result = tunesmith.tune_many([(program, 3), another], seconds=600)
    kernel = tunesmith.load(program)            a callable with the best schedule known
    client = tunesmith.connect(url, key=key)    the same on a server

Names are imported when they are first used, so that the command line starts at once.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tunesmith.client import Client, connect
    from tunesmith.frontend.ops import ops
    from tunesmith.ir import Program, ProgramError, parse
    from tunesmith.tuning import Estimate, Kernel, ManyResult, TuneResult, kernel, load
    from tunesmith.tuning.api import near, tune, tune_many

__version__ = "0.1.0"

__all__ = [
    "Client",
    "Estimate",
    "Kernel",
    "ManyResult",
    "Program",
    "ProgramError",
    "TuneResult",
    "TunesmithError",
    "__version__",
    "connect",
    "kernel",
    "load",
    "near",
    "ops",
    "parse",
    "tune",
    "tune_many",
]

_HOMES = {
    "Client": "client", "connect": "client",
    "Estimate": "tuning", "Kernel": "tuning", "ManyResult": "tuning", "TuneResult": "tuning",
    "kernel": "tuning", "load": "tuning",
    "tune": "tuning.api",  # tuning.tune is the tuner itself, which takes its options and store ready-made
    "near": "tuning.api", "tune_many": "tuning.api",
    "Program": "ir", "ProgramError": "ir", "parse": "ir", "ops": "frontend",
}  # fmt: skip


class TunesmithError(Exception):
    """A mistake that the user can mend; the message says what was wrong and what to do.

    It stands here so that the client, which raises it too, need not load the language and NumPy.
    """


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"tunesmith.{_HOMES[name]}"), name)
    globals()[name] = value
    return value
