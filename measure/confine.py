"""What a process may still do once it is given code or data of strangers. Standard library only.

On Linux a filter of system calls (seccomp) takes away what neither building nor running a kernel needs:
starting processes and programs, sockets, signals to others, changing file names and permissions, mounts,
debugging. Other systems have only the resource limits.
"""

import ctypes
import errno
import os
import platform
import resource
import signal
import struct
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["allow_cpu", "confine", "limit"]

_FILE_BYTES = 1 << 20
_OPEN_FILES = 256

_PR_SET_NO_NEW_PRIVS = 38
_FILTER_MODE, _ALL_THREADS, _KEEP_SPECULATION = 1, 1, 4
_NEW_USER, _NEW_NET = 0x10000000, 0x40000000
_CLONE_THREAD = 0x10000

# Of classic BPF: load a word of the call's data, jump if equal / greater or equal / any bit set, return.
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_NUMBER, _ARCH, _FIRST_ARGUMENT, _THIRD_ARGUMENT = 0, 4, 16, 32  # of two words, the low one first
_ALLOW, _FAIL = 0x7FFF0000, 0x00050000

# The same everywhere: pidfd_send_signal, io_uring_*, open_tree to fspick, pidfd_open, pidfd_getfd,
# mount_setattr, fchmodat2.
_RECENT = (424, 425, 426, 427, 428, 429, 430, 431, 432, 433, 434, 438, 442, 452)
_CLONE3 = 435


@dataclass(frozen=True, slots=True)
class _Machine:
    """Numbers of system calls. ``forbidden`` ones fail, ``clone`` makes threads only, ``to_oneself`` sends
    signals to this process only, ``limits`` reads its own. Those from ``foreign_from`` on are another way to
    the same calls."""

    arch: int
    seccomp: int
    clone: int
    to_oneself: tuple[int, ...]
    forbidden: tuple[int, ...]
    limits: int
    foreign_from: int


_X86_64 = _Machine(
    arch=0xC000003E,
    seccomp=317,
    clone=56,
    to_oneself=(62, 234),  # kill, tgkill
    forbidden=(
        41, 42, 43, 49, 50, 53, 288,  # socket, connect, accept, bind, listen, socketpair, accept4
        57, 58, 59, 322,  # fork, vfork, execve, execveat
        129, 200, 297,  # rt_sigqueueinfo, tkill, rt_tgsigqueueinfo
        76, 82, 83, 84, 86, 87, 88,  # truncate, rename, mkdir, rmdir, link, unlink, symlink
        90, 92, 93, 94, 133,  # chmod, chown, fchown, lchown, mknod
        258, 259, 260, 263, 264, 265, 266, 268, 316,  # the same with …at, renameat2
        101, 310, 311, 304, 323,  # ptrace, process_vm_readv/writev, open_by_handle_at, userfaultfd
        155, 161, 163, 165, 166, 167, 168, 169, 179,  # pivot_root, chroot, acct, mounts, swaps, reboot, quota
        159, 164, 227, 305, 170, 171, 172, 173,  # clocks, host names, iopl, ioperm
        175, 176, 313, 246, 320,  # modules, kexec
        248, 249, 250, 272, 308, 298, 321,  # keys, unshare, setns, perf_event_open, bpf
        160,  # setrlimit
    ),
    limits=302,
    foreign_from=0x40000000,
)  # fmt: skip

_AARCH64 = _Machine(
    arch=0xC00000B7,
    seccomp=277,
    clone=220,
    to_oneself=(129, 131),
    forbidden=(
        198, 199, 200, 201, 202, 203, 242,
        221, 281,
        130, 138, 240,
        45, 33, 34, 35, 36, 37, 38, 276,
        53, 54, 55,
        117, 270, 271, 265, 282,
        39, 40, 41, 51, 60, 89, 142, 224, 225,
        112, 161, 162, 170, 171, 266,
        104, 105, 106, 273, 294,
        217, 218, 219, 97, 268, 241, 280,
        164,
    ),
    limits=261,
    foreign_from=0x40000000,
)  # fmt: skip

_MACHINES = {"x86_64": _X86_64, "aarch64": _AARCH64}


def limit(which: int, amount: int) -> None:
    """Lowers a resource limit for good, or as far as the system lets."""
    _, hard = resource.getrlimit(which)
    if hard != resource.RLIM_INFINITY:
        amount = min(amount, hard)
    try:
        resource.setrlimit(which, (amount, amount))
    except (OSError, ValueError):
        return


def confine() -> bool:
    """Takes away from this process, for good, what strangers' code has no need of.

    Call it when all files that are written have been, and all programs started. Returns whether the filter
    of system calls holds; without it there is at least no network, where users may have one of their own.
    """
    sys.dont_write_bytecode = True  # half of writing it, the renaming, would fail
    tempfile.gettempdir()  # which finds out by making a file and removing it
    limit(resource.RLIMIT_CORE, 0)
    limit(resource.RLIMIT_FSIZE, _FILE_BYTES)
    limit(resource.RLIMIT_NOFILE, _OPEN_FILES)
    if sys.platform != "linux":
        return False
    libc = ctypes.CDLL(None, use_errno=True)
    machine = _MACHINES.get(platform.machine())
    if machine is not None and _install(libc, machine):
        return True
    libc.unshare(_NEW_USER | _NEW_NET)
    return False


def allow_cpu(wall_s: float) -> None:
    """Has this process end by SIGPROF once it uses twice the processor time that there is in ``wall_s``
    seconds from now, and a second more. The parent waits no longer, unless it is stopped itself."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    signal.setitimer(signal.ITIMER_PROF, 1.0 + 2 * cores * wall_s)


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("code", ctypes.c_char_p))


def _install(libc: ctypes.CDLL, machine: _Machine) -> bool:
    code = _filter(machine, os.getpid())
    program = _Program(len(code) // 8, code)
    if libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        return False
    # Older kernels otherwise slow down loads of filtered processes, and with them what is to be timed.
    for flags in (_ALL_THREADS | _KEEP_SPECULATION, _ALL_THREADS):
        if libc.syscall(machine.seccomp, _FILTER_MODE, flags, ctypes.byref(program)) == 0:
            return True
    return False


def _filter(machine: _Machine, pid: int) -> bytes:
    """The filter as instructions of classic BPF. Checks come first, then the ways to end."""
    checks: list[tuple[int, int, str, str]] = [  # code, value, where to if so, where to if not
        (_LOAD, _ARCH, "", ""),
        (_EQUAL, machine.arch, "", "deny"),
        (_LOAD, _NUMBER, "", ""),
        (_AT_LEAST, machine.foreign_from, "deny", ""),
        (_EQUAL, _CLONE3, "absent", ""),  # its flags are in memory; C libraries then use clone
        (_EQUAL, machine.clone, "clone", ""),
        (_EQUAL, machine.limits, "limits", ""),
        *((_EQUAL, number, "signal", "") for number in machine.to_oneself),
        *((_EQUAL, number, "deny", "") for number in (*machine.forbidden, *_RECENT)),
    ]
    ends: list[tuple[str, int, int, str, str]] = [
        ("allow", _RETURN, _ALLOW, "", ""),
        ("deny", _RETURN, _FAIL | errno.EPERM, "", ""),
        ("absent", _RETURN, _FAIL | errno.ENOSYS, "", ""),
        ("clone", _LOAD, _FIRST_ARGUMENT, "", ""),
        ("", _ANY_BIT, _CLONE_THREAD, "yes", "no"),
        ("signal", _LOAD, _FIRST_ARGUMENT, "", ""),
        ("", _EQUAL, pid, "yes", "no"),
        ("limits", _LOAD, _FIRST_ARGUMENT, "", ""),
        ("", _EQUAL, 0, "", "no"),
        ("", _LOAD, _THIRD_ARGUMENT, "", ""),
        ("", _EQUAL, 0, "", "no"),
        ("", _LOAD, _THIRD_ARGUMENT + 4, "", ""),
        ("", _EQUAL, 0, "yes", "no"),
        ("yes", _RETURN, _ALLOW, "", ""),
        ("no", _RETURN, _FAIL | errno.EPERM, "", ""),
    ]
    places = {name: len(checks) + n for n, (name, *_) in enumerate(ends)}
    lines = checks + [(code, value, yes, no) for _, code, value, yes, no in ends]
    return b"".join(_encoded(n, line, places) for n, line in enumerate(lines))


def _encoded(at: int, line: tuple[int, int, str, str], places: dict[str, int]) -> bytes:
    code, value, yes, no = line
    jumps: Sequence[int] = [places[name] - at - 1 if name else 0 for name in (yes, no)]
    return struct.pack("=HBBI", code, *jumps, value)
