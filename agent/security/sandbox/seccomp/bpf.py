"""Seccomp filters for confined commands, assembled as BPF.

A program is an array of `struct sock_filter` (linux/filter.h) over `struct seccomp_data`
(linux/seccomp.h); both architectures are little-endian.
"""

import errno
import os
import struct
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import Literal

from agent.records import frozen
from agent.security.sandbox.seccomp.syscalls import ARCHITECTURES, NUMBERS

_LOAD, _AND = 0x20, 0x54
_EQUAL, _AT_LEAST = 0x15, 0x35
_RETURN = 0x06
_ALLOW, _ASK, _ERRNO = 0x7FFF0000, 0x7FC00000, 0x00050000
_NUMBER_AT, _ARCH_AT, _ARGUMENTS_AT = 0, 4, 16
_X32 = 0x40000000

NEW_NAMESPACES = 0x7E020000
_AF_UNIX, _AF_INET, _AF_INET6, _AF_NETLINK = 1, 2, 10, 16
_STREAM, _SEQPACKET = 1, 5
_TCP = 6
_FAST_OPEN = 0x20000000
_TIOCSTI, _TIOCLINUX, _FIOSETOWN, _SIOCSPGRP = 0x5412, 0x541C, 0x8901, 0x8902
_F_SETOWN, _F_SETSIG, _F_SETOWN_EX = 8, 10, 15
TERMINAL = (_TIOCSTI, _TIOCLINUX)

# Programs handle ENOSYS for these calls, as on an older kernel. A filter cannot inspect the
# structures passed to `clone3` and `openat2`.
MISSING = ("clone3", "io_uring_setup", "io_uring_enter", "io_uring_register", "openat2")
FORBIDDEN = (
    "acct", "add_key", "adjtimex", "bpf", "chroot", "clock_adjtime", "clock_settime",
    "delete_module", "fanotify_init", "finit_module", "fsconfig", "fsmount", "fsopen", "fspick",
    "init_module", "ioperm", "iopl", "kcmp", "kexec_file_load", "kexec_load", "keyctl",
    "listmount", "lookup_dcookie", "migrate_pages", "modify_ldt", "mount", "mount_setattr",
    "move_mount", "move_pages", "name_to_handle_at", "open_by_handle_at", "open_tree",
    "open_tree_attr", "perf_event_open", "pidfd_getfd", "pivot_root", "process_madvise",
    "process_mrelease", "process_vm_readv", "process_vm_writev", "ptrace", "quotactl",
    "quotactl_fd", "reboot", "request_key", "setdomainname", "sethostname", "setns",
    "settimeofday", "statmount", "swapoff", "swapon", "syslog", "umount2", "unshare", "uselib",
    "userfaultfd", "vhangup",
)  # fmt: skip
# Kore's marks on files are extended attributes (marks.py). The error matches a file system
# without attributes, which programs that copy files tolerate.
ATTRIBUTES = (
    "file_setattr", "fremovexattr", "fsetxattr", "lremovexattr", "lsetxattr", "removexattr",
    "removexattrat", "setxattr", "setxattrat",
)  # fmt: skip
# Set-user-ID and set-group-ID: such a file runs as another user outside of the sandbox, too.
SET_ID = 0o6000
# O_CREAT and __O_TMPFILE.
CREATES = 0o100 | 0o20000000
MODES = {"chmod": 1, "fchmod": 1, "fchmodat": 2, "fchmodat2": 2, "mknod": 1, "mknodat": 2}
MODES |= {"creat": 1}
OPENS = {"open": 1, "openat": 2}
# Calls of a program that only computes and uses open descriptors.
PARSER_CALLS = (
    "brk", "clock_gettime", "exit", "exit_group", "futex", "madvise", "mmap", "mprotect", "mremap",
    "munmap", "read", "rt_sigreturn", "setitimer", "write",
)  # fmt: skip
# Ways to other processes of the same user that Landlock, unlike a namespace, does not close.
_SHARED = ("mq_open", "msgget", "semget", "shmat", "shmget")
_OF_A_PROCESS = (
    "prlimit64", "sched_setaffinity", "sched_setattr", "sched_setparam", "sched_setscheduler",
)  # fmt: skip
# PRIO_PROCESS and IOPRIO_WHO_PROCESS; other values address groups and users.
_OF_KINDS = {"setpriority": 0, "ioprio_set": 1}
# Not covered by Landlock: these work on any file of this user, by path or by a descriptor opened
# for reading.
_SUPERVISED = ("chmod", "fchmod", "fchmodat", "fchmodat2", "utimensat", "inotify_add_watch")
_OWNERS = ("chown", "fchown", "fchownat", "futimesat", "lchown", "utime", "utimes")
# Flags, version and project of a file, through a descriptor opened for reading.
_SET_FLAGS = (0x40086602, 0x40046602, 0x40087602, 0x40047602, 0x401C5820)
# A lease delays other openers of the file; dnotify sends signals.
_F_SETLEASE, _F_NOTIFY = 1024, 1026
# O_ACCMODE and O_TRUNC.
_ACCESS_AND_TRUNCATE, _READ_AND_TRUNCATE = 0x203, 0x200
_SIGNALS = ("pidfd_send_signal", "rt_sigqueueinfo", "rt_tgsigqueueinfo", "tgkill", "tkill")


@frozen
class ArgumentTest:
    """Test of an argument: after masking, it must (`only`) or must not (`never`) be in `values`.

    With `condition`, an argument and bits, the test applies only if some of these bits are set.
    """

    call: str
    argument: int
    kind: Literal["only", "never"]
    values: tuple[int, ...]
    mask: int = 0xFFFFFFFF
    condition: tuple[int, int] | None = None


@frozen
class FilterRules:
    """Rules of a filter in addition to the common rules.

    A process that listens to the filter decides about `supervised` calls.
    """

    forbidden: tuple[str, ...] = ()
    supervised: tuple[str, ...] = ()
    tests: tuple[ArgumentTest, ...] = ()


_ALWAYS = (
    ArgumentTest("ioctl", 1, "never", TERMINAL),
    ArgumentTest("clone", 0, "only", (0,), NEW_NAMESPACES),
    *(ArgumentTest(call, at, "only", (0,), SET_ID) for call, at in MODES.items()),
    # Without these flags the kernel ignores the mode, so it may have any value.
    *(
        ArgumentTest(call, at + 1, "only", (0,), SET_ID, (at, CREATES))
        for call, at in OPENS.items()
    ),
)
# A pair of stream sockets is a pipe; a datagram socket could be redirected to another address.
_PAIRS = (
    ArgumentTest("socketpair", 0, "only", (_AF_UNIX,)),
    ArgumentTest("socketpair", 1, "only", (_STREAM, _SEQPACKET), 0xF),
)

# A Unix socket in the workspace leads to the outside program that listens there, across network
# namespaces.
_FAMILIES = (_AF_INET, _AF_INET6, _AF_NETLINK)
NAMESPACED = FilterRules(
    tests=(ArgumentTest("socket", 0, "only", _FAMILIES), *_PAIRS),
)
# For a command that may reach a Unix socket: Kore makes its connections (`SUPERVISED_SOCKETS`).
# Among these families, only AF_UNIX is odd; a datagram would need no connection.
NAMESPACED_WITH_UNIX = FilterRules(
    tests=(
        ArgumentTest("socket", 0, "only", (_AF_UNIX, *_FAMILIES)),
        ArgumentTest("socket", 1, "only", (_STREAM, _SEQPACKET), 0xF, (0, _AF_UNIX)),
        *_PAIRS,
    ),
)
SUPERVISED_SOCKETS = ("bind", "connect")


# Sockets that can only connect, which is supervised. Sending with MSG_FASTOPEN also connects.
_CONNECTING = (
    ArgumentTest("socket", 0, "only", (_AF_INET,)),
    ArgumentTest("socket", 1, "only", (_STREAM,), 0xF),
    ArgumentTest("socket", 2, "only", (0, _TCP)),
    ArgumentTest("sendto", 3, "only", (0,), _FAST_OPEN),
    ArgumentTest("sendmsg", 2, "only", (0,), _FAST_OPEN),
    ArgumentTest("sendmmsg", 3, "only", (0,), _FAST_OPEN),
)


def rules_beyond_landlock(abi: int, *, connects: bool = False) -> FilterRules:
    """Return the rules for everything that this version of Landlock does not cover.

    This includes sockets, shared memory, other processes, and changes through a descriptor opened
    for reading. With `connects`, a command may open TCP connections, each of which is supervised.
    """
    own = (
        *(ArgumentTest(call, 0, "only", (0,)) for call in _OF_A_PROCESS),
        *(ArgumentTest(call, 0, "only", (kind,)) for call, kind in _OF_KINDS.items()),
        *(ArgumentTest(call, 1, "only", (0,)) for call in _OF_KINDS),
    )
    forbidden: tuple[str, ...] = (*_SHARED, *_OWNERS)
    forbidden += ("bind", "listen") if connects else ("socket",)
    descriptors = (
        ArgumentTest("ioctl", 1, "never", _SET_FLAGS),
        ArgumentTest("fcntl", 1, "never", (_F_SETLEASE, _F_NOTIFY)),
    )
    tests = (*_PAIRS, *own, *descriptors, *(_CONNECTING if connects else ()))
    supervised = (*_SUPERVISED, "connect") if connects else _SUPERVISED
    if abi < 3:
        # Opening a file for reading can truncate it.
        forbidden += ("truncate", "openat2")
        tests += tuple(
            ArgumentTest(call, argument, "never", (_READ_AND_TRUNCATE,), _ACCESS_AND_TRUNCATE)
            for call, argument in (("open", 1), ("openat", 2))
        )
    if abi < 6:
        # For versions without signal scopes: signals only to its own group.
        signals = (
            ArgumentTest("kill", 0, "only", (0,)),
            ArgumentTest("fcntl", 1, "never", (_F_SETOWN, _F_SETSIG, _F_SETOWN_EX)),
            ArgumentTest("ioctl", 1, "never", (_FIOSETOWN, _SIOCSPGRP)),
        )
        forbidden += _SIGNALS
        tests += signals
    return FilterRules(forbidden, supervised, tests)


def supervised_calls(rules: FilterRules, machine: str | None = None) -> dict[int, str]:
    """Return the names of supervised calls by number for an architecture."""
    return call_numbers(rules.supervised, machine)


def call_numbers(names: Sequence[str], machine: str | None = None) -> dict[int, str]:
    """Return the names of calls by number for an architecture."""
    column = list(ARCHITECTURES).index(machine or os.uname().machine)
    numbers = {name: NUMBERS[name][column] for name in names}
    return {number: name for name, number in numbers.items() if number is not None}


@cache
def program(rules: FilterRules, machine: str | None = None) -> bytes:
    """Return the filter for the kernel. Raises `KeyError` for an unknown architecture."""
    machine = machine or os.uname().machine
    column = _column(machine)
    out = _load_number(machine)
    if machine == "x86_64":
        out += [_step(_AT_LEAST, _X32, 0, 1), _refuse(errno.ENOSYS)]
    answers = (
        (MISSING, _ERRNO | errno.ENOSYS),
        ((*FORBIDDEN, *rules.forbidden), _ERRNO | errno.EPERM),
        (ATTRIBUTES, _ERRNO | errno.EOPNOTSUPP),
    )
    for names, answer in answers:
        out += _answer_calls(names, answer, column)
    for test in (*_ALWAYS, *rules.tests):
        for number in _numbers((test.call,), column):
            block = _block(test)
            out += [_step(_EQUAL, number, 0, len(block)), *block]
    # Supervised calls come last, so that calls that are always rejected are not supervised.
    out += _answer_calls(rules.supervised, _ASK, column)
    return b"".join([*out, _step(_RETURN, _ALLOW)])


@cache
def allow_only(calls: tuple[str, ...], machine: str | None = None) -> bytes:
    """Return a filter that rejects all calls except these; empty for an unknown architecture."""
    machine = machine or os.uname().machine
    if machine not in ARCHITECTURES:
        return b""
    allowed = _answer_calls(calls, _ALLOW, _column(machine))
    return b"".join([*_load_number(machine), *allowed, _refuse(errno.EPERM)])


@cache
def supervise_only(calls: tuple[str, ...], machine: str | None = None) -> bytes:
    """Return a filter that supervises these calls, and allows all others."""
    machine = machine or os.uname().machine
    steps = [*_load_number(machine), *_answer_calls(calls, _ASK, _column(machine))]
    return b"".join([*steps, _step(_RETURN, _ALLOW)])


def _column(machine: str) -> int:
    return list(ARCHITECTURES).index(machine) if machine in ARCHITECTURES else -1


def _load_number(machine: str) -> list[bytes]:
    """Reject calls of another architecture and load the call number."""
    return [
        _step(_LOAD, _ARCH_AT),
        _step(_EQUAL, ARCHITECTURES[machine], 1, 0),
        _refuse(errno.ENOSYS),
        _step(_LOAD, _NUMBER_AT),
    ]


def _answer_calls(names: Iterable[str], answer: int, column: int) -> Iterator[bytes]:
    for number in _numbers(names, column):
        yield from (_step(_EQUAL, number, 0, 1), _step(_RETURN, answer))


def _block(test: ArgumentTest) -> Sequence[bytes]:
    """Return the steps that reject the call, or else reload the call number and continue."""
    steps = _load_masked(test.argument, test.mask)
    for remaining, value in zip(range(len(test.values) - 1, -1, -1), test.values, strict=True):
        # Jump past the remaining values to the rejection.
        if test.kind == "only":
            steps.append(_step(_EQUAL, value, remaining + 1, 0))
        else:
            steps.append(_step(_EQUAL, value, remaining, int(remaining == 0)))
    steps.append(_refuse(errno.EPERM))
    if test.condition is not None:
        steps = [*_load_masked(*test.condition), _step(_EQUAL, 0, len(steps), 0), *steps]
    return [*steps, _step(_LOAD, _NUMBER_AT)]


def _load_masked(argument: int, mask: int) -> list[bytes]:
    return [_step(_LOAD, _ARGUMENTS_AT + 8 * argument), _step(_AND, mask)]


def _numbers(names: Iterable[str], column: int) -> list[int]:
    return [number for name in names if (number := NUMBERS[name][column]) is not None]


def _step(code: int, value: int, yes: int = 0, no: int = 0) -> bytes:
    return struct.pack("<HBBI", code, yes, no, value)


def _refuse(code: int) -> bytes:
    return _step(_RETURN, _ERRNO | code)
