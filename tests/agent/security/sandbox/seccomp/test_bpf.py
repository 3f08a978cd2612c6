"""Seccomp filters, evaluated by an interpreter for each architecture."""

import errno
import struct

import pytest

from agent.security.sandbox.seccomp.bpf import (
    NAMESPACED,
    PARSER_CALLS,
    FilterRules,
    allow_only,
    program,
    rules_beyond_landlock,
)
from agent.security.sandbox.seccomp.syscalls import ARCHITECTURES, NUMBERS

ALLOWED, SUPERVISED = "allowed", "asked"


def decide(
    rules: FilterRules, machine: str, call: str | int, *arguments: int, arch: int = 0
) -> str:
    """Return the kernel's action for a call under these rules."""
    return interpret(program(rules, machine), machine, call, *arguments, arch=arch)


def interpret(
    instructions: bytes, machine: str, call: str | int, *arguments: int, arch: int = 0
) -> str:
    """Return the kernel's action: classic BPF over `struct seccomp_data`."""
    column = list(ARCHITECTURES).index(machine)
    number = NUMBERS[call][column] if isinstance(call, str) else call
    padded = [*arguments, *[0] * (6 - len(arguments))]
    data = struct.pack("<IIQ6Q", number, arch or ARCHITECTURES[machine], 0, *padded)
    code = list(struct.iter_unpack("<HBBI", instructions))
    at = accumulator = 0
    while True:
        kind, yes, no, value = code[at]
        at += 1
        if kind == 0x20:
            accumulator = struct.unpack_from("<I", data, value)[0]
        elif kind == 0x54:
            accumulator &= value
        elif kind == 0x15:
            at += yes if accumulator == value else no
        elif kind == 0x35:
            at += yes if accumulator >= value else no
        else:
            assert kind == 0x06
            if value >> 16 == 5:
                return errno.errorcode[value & 0xFFFF]
            return {0x7FFF0000: ALLOWED, 0x7FC00000: SUPERVISED}[value]


both = pytest.mark.parametrize("machine", ["x86_64", "aarch64"])


@both
def test_parser_can_only_compute_and_answer(machine: str) -> None:
    instructions = allow_only(PARSER_CALLS, machine)
    column = list(ARCHITECTURES).index(machine)
    for call, numbers in NUMBERS.items():
        if numbers[column] is not None:
            expected = ALLOWED if call in PARSER_CALLS else "EPERM"
            assert interpret(instructions, machine, call) == expected, call
    assert interpret(instructions, machine, 9999) == "EPERM"
    assert interpret(instructions, machine, "read", arch=0x40000003) == "ENOSYS"
    # The same call in the x32 convention.
    assert interpret(instructions, machine, 0x40000000) == "EPERM"
    assert allow_only(PARSER_CALLS, "sparc") == b""


@both
def test_dangerous_calls_are_blocked_on_each_architecture(machine: str) -> None:
    closed = "keyctl ptrace bpf unshare setns mount process_vm_readv userfaultfd kexec_load"
    for rules in (NAMESPACED, rules_beyond_landlock(7)):
        for call in closed.split():
            assert decide(rules, machine, call) == "EPERM", call
        for call in ("clone3", "io_uring_setup", "io_uring_enter"):
            assert decide(rules, machine, call) == "ENOSYS", call


@both
def test_arguments_decide_about_calls(machine: str) -> None:
    for rules in (NAMESPACED, rules_beyond_landlock(7)):
        assert decide(rules, machine, "clone", 0x1200011) == ALLOWED
        for namespace in (0x20000, 0x2000000, 0x10000000, 0x40000000):
            assert decide(rules, machine, "clone", 0x11 | namespace) == "EPERM"
        assert decide(rules, machine, "ioctl", 0, 0x5401) == ALLOWED
        assert decide(rules, machine, "ioctl", 0, 0x5412) == "EPERM"
        # The kernel uses only the lower half of a command.
        assert decide(rules, machine, "ioctl", 0, 0xABCD_0000_5412) == "EPERM"
        assert decide(rules, machine, "ioctl", 0, 0x541C) == "EPERM"


@both
def test_extended_attributes_cannot_be_changed(machine: str) -> None:
    calls = [f"{kind}{call}xattr" for kind in ("", "l", "f") for call in ("set", "remove")]
    for rules in (NAMESPACED, rules_beyond_landlock(7), rules_beyond_landlock(1)):
        for call in (*calls, "setxattrat", "removexattrat"):
            assert decide(rules, machine, call, 3) == "ENOTSUP", call


@both
def test_sockets_are_restricted(machine: str) -> None:
    assert decide(NAMESPACED, machine, "socket", 1) == "EPERM"
    assert decide(NAMESPACED, machine, "socketpair", 1, 1) == ALLOWED
    assert decide(NAMESPACED, machine, "socketpair", 1, 2) == "EPERM"
    assert decide(NAMESPACED, machine, "socket", 2) == ALLOWED
    assert decide(NAMESPACED, machine, "socket", 40) == "EPERM"
    beside = rules_beyond_landlock(7)
    assert decide(beside, machine, "socket", 1) == "EPERM"
    assert decide(beside, machine, "socketpair", 1, 1) == ALLOWED
    assert decide(beside, machine, "socketpair", 1, 0o2000001) == ALLOWED
    assert decide(beside, machine, "socketpair", 1, 2) == "EPERM"
    assert decide(beside, machine, "socketpair", 2, 1) == "EPERM"


@both
def test_other_processes_are_unreachable_under_landlock(machine: str) -> None:
    beside = rules_beyond_landlock(7)
    assert decide(beside, machine, "prlimit64", 0) == ALLOWED
    assert decide(beside, machine, "prlimit64", 77) == "EPERM"
    assert decide(beside, machine, "setpriority", 0, 0) == ALLOWED
    assert decide(beside, machine, "setpriority", 0, 77) == "EPERM"
    assert decide(beside, machine, "setpriority", 2, 0) == "EPERM"
    assert decide(beside, machine, "shmget") == "EPERM"
    assert decide(beside, machine, "fchmodat") == SUPERVISED
    assert decide(beside, machine, "kill", 77, 9) == ALLOWED


@both
def test_older_landlock_gets_a_stricter_filter(machine: str) -> None:
    assert decide(rules_beyond_landlock(5), machine, "kill", 77, 9) == "EPERM"
    assert decide(rules_beyond_landlock(5), machine, "kill", 0, 9) == ALLOWED
    assert decide(rules_beyond_landlock(5), machine, "tgkill", 77, 77, 9) == "EPERM"
    assert decide(rules_beyond_landlock(5), machine, "fcntl", 0, 8, 77) == "EPERM"
    assert decide(rules_beyond_landlock(5), machine, "fcntl", 0, 3) == ALLOWED
    assert decide(rules_beyond_landlock(2), machine, "truncate") == "EPERM"
    assert decide(rules_beyond_landlock(3), machine, "truncate") == ALLOWED


@both
def test_set_id_files_cannot_be_created(machine: str) -> None:
    column = list(ARCHITECTURES).index(machine)
    created, opened = 0o101, 0o1
    calls: dict[str, tuple[int, ...]] = {
        "chmod": (0,), "fchmod": (0,), "creat": (0,), "mknod": (0,), "fchmodat": (0, 0),
        "fchmodat2": (0, 0), "mknodat": (0, 0), "open": (0, created), "openat": (0, 0, created),
    }  # fmt: skip
    for rules in (NAMESPACED, rules_beyond_landlock(7)):
        for call, before in calls.items():
            if NUMBERS[call][column] is None:
                continue
            for mode in (0o4755, 0o2755, 0o6000, 0o104755, 0xABCD_0000_4755):
                assert decide(rules, machine, call, *before, mode) == "EPERM", (call, mode)
            plain = decide(rules, machine, call, *before, 0o1777)
            assert plain == (ALLOWED if rules is NAMESPACED else plain), call
            assert plain != "EPERM", call
        # Without creation, the mode register may contain anything.
        assert decide(rules, machine, "openat", 0, 0, opened, 0o7777) == ALLOWED
        temporary = 0o20200000
        assert decide(rules, machine, "openat", 0, 0, temporary, 0o4755) == "EPERM"
        assert decide(rules, machine, "openat2") == "ENOSYS"


def test_calls_of_other_architectures_are_blocked() -> None:
    i386 = 0x40000003
    assert decide(NAMESPACED, "x86_64", 1, arch=i386) == "ENOSYS"
    assert decide(NAMESPACED, "x86_64", 0x40000000 | 1) == "ENOSYS"
    assert decide(NAMESPACED, "aarch64", 1, arch=ARCHITECTURES["x86_64"]) == "ENOSYS"
