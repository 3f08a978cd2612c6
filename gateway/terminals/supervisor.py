"""Supervisor of a shell without a sandbox, which ends all processes that the shell leaves.

It is run by `agent.tools.child_process.program` with the descriptor of the terminal and the path of
the shell. Standard input is a pipe whose other end only Kore has open.
"""

import ctypes
import fcntl
import os
import select
import signal
import sys
import termios

from agent.security.sandbox.descendants import kill_descendants

_SET_SUBREAPER = 36


def main() -> int:
    """Run the shell and return its exit code; 128 and more mean a signal."""
    tty, shell = int(sys.argv[1]), sys.argv[2]
    if ctypes.CDLL(None, use_errno=True).prctl(_SET_SUBREAPER, 1, 0, 0, 0) != 0:
        os.write(2, f"The shell was not started: {os.strerror(ctypes.get_errno())}\n".encode())
        return 126
    child = os.fork()
    if child == 0:
        try:
            _execute(tty, shell)
        except OSError as exc:
            os.write(2, f"{shell} was not started: {exc.strerror}\n".encode())
        finally:
            os._exit(126)
    os.close(tty)
    poll = select.poll()
    pidfd = os.pidfd_open(child)
    for descriptor in (0, pidfd):
        poll.register(descriptor, select.POLLIN | select.POLLHUP)
    ended = {descriptor for descriptor, _ in poll.poll()}
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) if pidfd in ended else -signal.SIGKILL
    kill_descendants()
    return code if code >= 0 else 128 - code


def _execute(tty: int, shell: str) -> None:
    os.setsid()
    fcntl.ioctl(tty, termios.TIOCSCTTY, 0)
    for descriptor in (0, 1, 2):
        os.dup2(tty, descriptor)
    os.closerange(3, 1 << 10)
    # Python ignores these signals, and its children would inherit that.
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    # Start a login shell: a server's environment may lack variables that a profile sets.
    os.execv(shell, [f"-{os.path.basename(shell)}"])  # noqa: S606 - it is a shell
