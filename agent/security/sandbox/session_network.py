"""Network namespace of a session: its commands share 127.0.0.1 and have no way out."""

import os
import subprocess
from contextlib import suppress
from typing import Self

from agent.security.sandbox.trusted_programs import SYSTEM_PATH, find_trusted_program
from agent.security.sandbox.unprivileged_user import is_root

# Keeps the namespaces open until its standard input closes, that is, until Kore ends.
_HOLD = "echo $$; read -r _"
_EXIT_TIMEOUT_S = 5.0


class SessionNetwork:
    """Network namespace with a loopback device, kept open by a process.

    `enter` is the command line prefix that starts a program in it, `holder` the ID of the process.
    """

    def __init__(self, process: "subprocess.Popen[bytes]", nsenter: str, holder: int) -> None:
        self._process = process
        self.holder = holder
        space = f"/proc/{holder}/ns"
        self.enter: tuple[str, ...] = (nsenter, f"--net={space}/net")
        if not is_root():
            # The network belongs to a user namespace, which must be entered first.
            self.enter += (f"--user={space}/user", "--preserve-credentials")

    @classmethod
    def open(cls, bwrap: str) -> Self:
        """Create a network. May block for some hundredths of a second. Raises `OSError` on
        failure."""
        nsenter = find_trusted_program("nsenter", path=SYSTEM_PATH)
        if nsenter is None:
            raise FileNotFoundError("nsenter is not installed")
        user = [] if is_root() else ["--unshare-user"]
        command = [
            bwrap, *user, "--unshare-net", "--unshare-ipc", "--cap-drop", "ALL",
            "--ro-bind", "/", "/", "--", "/bin/sh", "-c", _HOLD,
        ]  # fmt: skip
        process = subprocess.Popen(
            command, env={}, cwd="/",
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            start_new_session=True,
        )  # fmt: skip
        assert process.stdout is not None, "it was opened as a pipe"
        line = process.stdout.readline().strip()
        process.stdout.close()
        network = cls(process, nsenter, int(line) if line.isdigit() else 0)
        if not line.isdigit() or not network._can_be_entered(bwrap):
            network.close()
            raise OSError("the network of the conversation could not be created")
        return network

    def close(self) -> None:
        """Close the network.

        Its programs keep running, but no others can enter. May block for a moment.
        """
        if self._process.stdin is not None:
            with suppress(OSError):
                self._process.stdin.close()
        try:
            self._process.wait(_EXIT_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _can_be_entered(self, bwrap: str) -> bool:
        """Return whether a sandbox works in the network."""
        command = [*self.enter, "--", bwrap, "--unshare-user", "--ro-bind", "/", "/", "true"]
        env = {"PATH": os.defpath}
        process = subprocess.run(
            command, env=env, cwd="/", stdin=subprocess.DEVNULL, capture_output=True, check=False
        )
        return process.returncode == 0
