"""What worker processes know of the environment: enough to run, and none of its secrets.

They run native code that was generated for strangers' programs; keys and passwords of databases often stand
in variables, and nobody can list them all. Hence those that are needed are named, not those that are not.
"""

import os

__all__ = ["worker_environment"]

_NAMES = frozenset({
    "HOME", "LANG", "LANGUAGE", "LD_LIBRARY_PATH", "LOGNAME", "PATH", "SYSTEMROOT", "TEMP", "TMP", "TMPDIR",
    "TZ", "USER", "VIRTUAL_ENV", "XDG_CACHE_HOME", "DYLD_LIBRARY_PATH",
})  # fmt: skip
_PREFIXES = ("LC_", "PYTHON", "OMP_", "GOMP_", "KMP_", "OPENBLAS_")


def worker_environment(**more: str) -> dict[str, str]:
    """This process's variables that find programs and libraries, and those of languages and of OpenMP."""
    kept = {k: v for k, v in os.environ.items() if k in _NAMES or k.startswith(_PREFIXES)}
    return {**kept, **more}
