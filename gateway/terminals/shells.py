"""Shells of terminals: in the sandbox of commands, or as the user who runs Kore."""

import os
import pwd
import shlex
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import ClassVar

from agent.errors import KoreError
from agent.i18n import t
from agent.security.sandbox import environment
from agent.security.sandbox.base import SandboxCommand, SpawnSpec
from agent.security.sandbox.unconfined import Unconfined
from agent.settings import ToolSettings
from agent.tools.base import CallContext, ToolEnvironment
from agent.tools.child_process import program
from agent.tools.shell.process_registry import ProcessRegistry
from agent.tools.shell.sandboxed_command import CommandLine, SandboxedCommands
from agent.types import ToolCall
from gateway.terminals.terminal import ShellJob

_VARIABLES = {"TERM": "xterm-256color", "COLORTERM": "truecolor"}
# Opening the terminal makes it the controlling terminal. If it is already the standard input, the
# shell first needs a new session.
_CONFINED = (
    "[ -t 0 ] || exec <>/proc/self/fd/{tty};"
    " if (: </dev/tty) 2>/dev/null; then exec {shell} >&0 2>&0; fi;"
    " exec setsid --ctty --wait {shell} >&0 2>&0"
)


class ConfinedShells:
    """Shells in the sandbox, under the rules of the owner's commands."""

    def __init__(self, settings: Callable[[], ToolSettings]) -> None:
        self._settings = settings
        self._processes = ProcessRegistry()

    def check(self) -> None:
        """Raise `KoreError` if there is no sandbox."""
        sandbox = self._settings().sandbox
        if sandbox is None or not sandbox.confines:
            raise KoreError(
                t("there is no sandbox for a terminal on this machine"),
                hint=t('`kore doctor` tells why; `server.terminal` "full" does without one'),
            )

    async def run(self, job: ShellJob, on_message: Callable[[bytes], None]) -> int:
        self.check()
        commands = SandboxedCommands(self._settings(), None, self._processes)
        variables = " ".join(f"{name}={value}" for name, value in _VARIABLES.items())
        shell = shlex.join([environment.shell(), "-i"])
        command = f"export {variables}; {_CONFINED.format(shell=shell, tty=job.tty)}"
        line = CommandLine(command, job.folder, _owner_call(job), terminal=job.tty)
        try:
            ended = await commands.run(line, None, on_message)
        finally:
            await self._processes.end(job.session)
        if ended.exit.reason:
            on_message(f"{ended.exit.reason}\n".encode())
        on_message(ended.report.encode())
        return ended.exit.code or 0

    async def aclose(self) -> None:
        await self._processes.aclose()


class UnconfinedShells:
    """Shells as the user who runs Kore, without variables that may contain secrets."""

    def check(self) -> None:
        """Do nothing, because these shells need no sandbox."""

    async def run(self, job: ShellJob, on_message: Callable[[bytes], None]) -> int:
        sandbox = _SupervisedShell(passes_environment=True)
        commands = SandboxedCommands(ToolSettings(sandbox=sandbox))
        line = CommandLine("", job.folder, _owner_call(job), terminal=job.tty)
        return (await commands.run(line, None, on_message)).exit.code or 0

    async def aclose(self) -> None:
        pass


class _SupervisedShell(Unconfined):
    """Run the shell under a supervisor.

    An interactive shell gives every job a process group, so that no group contains them all.
    """

    name: ClassVar[str] = "none"

    @contextmanager
    def prepare(self, job: SandboxCommand) -> Iterator[SpawnSpec]:
        assert job.terminal is not None
        user = pwd.getpwuid(os.geteuid())
        shell = user.pw_shell if os.access(user.pw_shell, os.X_OK) else environment.shell()
        with super().prepare(job) as spawn:
            env = {"HOME": user.pw_dir, "USER": user.pw_name, **spawn.env, **_VARIABLES}
            yield replace(
                spawn,
                argv=tuple(program("gateway.terminals.supervisor", str(job.terminal), shell)),
                env={**env, "SHELL": shell},
                pass_fds=(job.terminal,),
                is_supervised=True,
            )


def _owner_call(job: ShellJob) -> CallContext:
    environment_ = ToolEnvironment(job.session, job.folder, job.memory, owner=True)
    call = ToolCall("", "terminal", {}, "")
    return CallContext(call, environment_, lambda *_: None, record=job.record)
