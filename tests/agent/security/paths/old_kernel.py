"""Emulates a kernel without `openat2` by seccomp, as on old container hosts."""

import ctypes
import errno
import os
import struct

_PR_SET_NO_NEW_PRIVS, _PR_SET_SECCOMP, _FILTER = 38, 22, 2
_LOAD, _JUMP_IF_EQUAL, _RETURN = 0x20, 0x15, 0x06
_ALLOW, _REFUSE = 0x7FFF_0000, 0x0005_0000 | errno.EPERM
_OPENAT2 = 437


def forbid_openat2() -> None:
    """Make `openat2` fail with EPERM in this process and its children."""
    program = b"".join(
        struct.pack("HBBI", *step)
        for step in (
            (_LOAD, 0, 0, 0),  # the number of the call
            (_JUMP_IF_EQUAL, 0, 1, _OPENAT2),
            (_RETURN, 0, 0, _REFUSE),
            (_RETURN, 0, 0, _ALLOW),
        )
    )
    steps = ctypes.create_string_buffer(program)

    class Program(ctypes.Structure):
        _fields_ = (("length", ctypes.c_ushort), ("steps", ctypes.c_void_p))

    libc = ctypes.CDLL(None, use_errno=True)
    wanted = Program(4, ctypes.addressof(steps))
    for args in (
        (_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0),
        (_PR_SET_SECCOMP, _FILTER, ctypes.byref(wanted)),
    ):
        if libc.prctl(*args):
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
