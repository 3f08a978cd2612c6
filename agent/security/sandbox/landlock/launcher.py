"""Launcher between Kore and a command under Landlock: confines the command and ends its processes.

It imports nothing from Kore except this package, so that it starts quickly:

    python -I -S -c "…; launch.main()" FOLDER_OF_KORE DESCRIPTOR_OF_THE_PLAN
"""

import ctypes
import marshal
import os
import resource
import select
import signal
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from agent.security.sandbox.descendants import kill_descendants, name_descendants
from agent.security.sandbox.landlock.call_broker import CallBroker

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_PATH_BENEATH = 1
_SET_SUBREAPER, _NO_NEW_PRIVILEGES = 36, 38
_SECCOMP = {"x86_64": 317, "aarch64": 277}
_FILTER, _NEW_LISTENER = 1, 1 << 3

_libc = ctypes.CDLL(None, use_errno=True)


class _Ruleset(ctypes.Structure):
    _fields_ = (("fs", ctypes.c_uint64), ("net", ctypes.c_uint64), ("scoped", ctypes.c_uint64))


class _Beneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("rights", ctypes.c_uint64), ("folder", ctypes.c_int32))


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_void_p))


def main() -> None:
    """Run the plan and exit with its command's status, or 126 if confinement failed."""
    with os.fdopen(int(sys.argv[2]), "rb") as file:
        plan = marshal.load(file)  # noqa: S302 - from Kore, through a pipe of its own
    _call(_libc.prctl, _SET_SUBREAPER, 1, 0, 0, 0)
    _limit(resource.RLIMIT_CORE, 0)
    ours, theirs = _pair()
    child = os.fork()
    if child == 0:
        try:
            ours.close()
            _execute(plan, theirs)
        except (OSError, ValueError, KeyError) as exc:
            os.write(2, f"The sandbox could not be set up: {exc}\n".encode())
        finally:
            os._exit(126)
    theirs.close()
    code = _supervise(child, ours, plan)
    if code < 0:
        if -code not in (signal.SIGKILL, signal.SIGSTOP):
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code if code >= 0 else 128 - code)


def _execute(plan: Mapping[str, Any], to_parent: Any) -> None:
    os.setsid()
    stdin = plan["stdin"]
    os.dup2(os.open("/dev/null", os.O_RDONLY) if stdin is None else stdin, 0)
    # By descriptor: a link that replaces the workspace has no effect.
    os.fchdir(plan["workspace"])
    os.chdir(plan["folder"])
    for name, value in plan["limits"]:
        _limit(getattr(resource, name), value)
    _limit(resource.RLIMIT_NPROC, _tasks_of_user() + plan["processes"])
    _call(_libc.prctl, _NO_NEW_PRIVILEGES, 1, 0, 0, 0)
    _landlock(plan)
    listener = _seccomp(plan["filter"])
    to_parent.sendmsg([b"."], [(1, 1, listener.to_bytes(4, "little"))])  # SOL_SOCKET, SCM_RIGHTS
    first = 3
    for descriptor in sorted(plan["report"]):
        os.closerange(first, descriptor)
        first = descriptor + 1
    os.closerange(first, 1 << 16)
    command = [plan["shell"], "-c", plan["command"]]
    os.execve(plan["shell"], command, plan["environment"])  # noqa: S606 - it is a shell


def _landlock(plan: Mapping[str, Any]) -> None:
    fs, net, scoped = plan["handled"]
    # Older kernels use fewer fields, and accept the longer structure if the rest is 0.
    attributes = _Ruleset(fs, net, scoped)
    ruleset = _call(
        _libc.syscall, _CREATE_RULESET, ctypes.byref(attributes), ctypes.sizeof(attributes), 0
    )
    opened = plan["opened"]
    for path, rights in plan["rules"]:
        folder = os.dup(opened[path]) if path in opened else os.open(path, os.O_PATH)
        rule = _Beneath(rights, folder)
        _call(_libc.syscall, _ADD_RULE, ruleset, _PATH_BENEATH, ctypes.byref(rule), 0)
        os.close(folder)
    _call(_libc.syscall, _RESTRICT_SELF, ruleset, 0)
    os.close(ruleset)


def _seccomp(program: bytes) -> int:
    """Install the filter and return the listener for supervised calls."""
    code = ctypes.create_string_buffer(program, len(program))
    filled = _Program(len(program) // 8, ctypes.cast(code, ctypes.c_void_p))
    number = _SECCOMP[os.uname().machine]
    return _call(_libc.syscall, number, _FILTER, _NEW_LISTENER, ctypes.byref(filled))


def _supervise(child: int, channel: Any, plan: Mapping[str, Any]) -> int:
    """Wait for the end of the command or of Kore, then end all processes; return the exit code."""
    pidfd = os.pidfd_open(child)
    broker = CallBroker(
        plan["supervised"],
        writable=plan["writable"],
        readable=plan["readable"],
        connect_broker=_connect_broker(plan["proxy"], plan["services"]),
    )
    poll = select.poll()
    for descriptor in (0, pidfd, channel.fileno()):
        poll.register(descriptor, select.POLLIN | select.POLLHUP)
    left_processes: Sequence[str] = ()
    status: int | None = None
    while status is None:
        for descriptor, event in poll.poll():
            if descriptor == pidfd:
                status = os.waitpid(child, 0)[1]
                left_processes = name_descendants() if plan["report"] else []
            elif descriptor == channel.fileno():
                poll.unregister(descriptor)
                if (listener := _receive_descriptor(channel)) is not None:
                    poll.register(listener, select.POLLIN)
                    broker.listen(listener)
            elif descriptor == 0:
                status = signal.SIGKILL
            elif not event & select.POLLIN or not broker.answer():
                poll.unregister(descriptor)
    kill_descendants()
    if left_processes:
        _report(left_processes, plan["report"][0])
    return os.waitstatus_to_exitcode(status)


def _report(left_processes: Sequence[str], pipe: int) -> None:
    """Write as many process names as fit, in the format of `CommandReport`.

    Call this only after the command has ended, because it could fill the pipe and make the write
    block.
    """
    os.set_blocking(pipe, False)
    try:
        os.write(pipe, "".join(f"process {name}\n" for name in left_processes).encode())
    except BlockingIOError:
        return


def _connect_broker(proxy: tuple[int, bytes] | None, services: Sequence[tuple[str, int]]) -> Any:
    if proxy is None:
        return None
    from agent.security.sandbox.landlock.connect_broker import ConnectBroker

    return ConnectBroker(*proxy, services)


def _tasks_of_user() -> int:
    """Return the number of threads of this user: the kernel's limit counts all of them."""
    count, uid = 0, os.getuid()
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                if os.stat(f"/proc/{name}").st_uid == uid:
                    with open(f"/proc/{name}/stat", "rb") as file:
                        count += int(file.read().rpartition(b")")[2].split()[17])
            except OSError:
                continue
    return count


def _limit(kind: int, value: int) -> None:
    hard = resource.getrlimit(kind)[1]
    if hard != resource.RLIM_INFINITY:
        value = min(value, hard)
    resource.setrlimit(kind, (value, value))


def _pair() -> Any:
    # The module behind `socket`, which takes 5 ms to import.
    import _socket

    return _socket.socketpair(_socket.AF_UNIX, _socket.SOCK_STREAM)


def _receive_descriptor(channel: Any) -> int | None:
    data, ancillary, _, _ = channel.recvmsg(1, 64)
    channel.close()
    return int.from_bytes(ancillary[0][2][:4], "little") if data and ancillary else None


def _call(function: Any, *arguments: Any) -> int:
    """Call a C function and return its result. Raises `OSError` when it is negative."""
    result: int = function(*arguments)
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result
