"""Seccomp filter as a profile for container services.

https://docs.docker.com/engine/security/seccomp/
"""

import errno
import json
from typing import Any

from agent.security.sandbox.seccomp import bpf
from agent.security.sandbox.seccomp.syscalls import NUMBERS

_AF_UNIX, _DATAGRAM = 1, 2


def seccomp_profile() -> str:
    """Return the rules of every filter and of `NAMESPACED` as a profile."""
    rules = [
        _rule(bpf.MISSING, errno.ENOSYS),
        _rule(bpf.FORBIDDEN, errno.EPERM),
        _rule(bpf.ATTRIBUTES, errno.EOPNOTSUPP),
        _refuse_call("socket", (0, 0xFF, _AF_UNIX)),
        _refuse_call("socketpair", (1, 0xF, _DATAGRAM)),
        *(_refuse_call("ioctl", (1, 0xFFFFFFFF, value)) for value in bpf.TERMINAL),
        *(_refuse_call("clone", (0, bit, bit)) for bit in _bits(bpf.NEW_NAMESPACES)),
    ]
    for bit in _bits(bpf.SET_ID):
        rules += [_refuse_call(call, (at, bit, bit)) for call, at in bpf.MODES.items()]
        for flag in _bits(bpf.CREATES):
            rules += [
                _refuse_call(call, (at, flag, flag), (at + 1, bit, bit))
                for call, at in bpf.OPENS.items()
            ]
    return json.dumps({"defaultAction": "SCMP_ACT_ALLOW", "syscalls": rules})


def _refuse_call(call: str, *tests: tuple[int, int, int]) -> dict[str, Any]:
    """Return a rule that rejects the call if, for each test, the masked argument has this value."""
    args = [
        {"index": at, "value": mask, "valueTwo": value, "op": "SCMP_CMP_MASKED_EQ"}
        for at, mask, value in tests
    ]
    return {**_rule((call,), errno.EPERM), "args": args}


def _rule(calls: tuple[str, ...], code: int) -> dict[str, Any]:
    names = [call for call in calls if call in NUMBERS]
    return {"names": names, "action": "SCMP_ACT_ERRNO", "errnoRet": code}


def _bits(value: int) -> list[int]:
    return [1 << n for n in range(32) if value >> n & 1]
