"""Shell escape `!command`: commands that the person runs directly.

A command has the rights and the environment of the person, without sandbox or policy, as in any
other terminal. Its output is shown live and is added to the person's next message for the model.
"""

import codecs
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from agent.errors import ToolError
from agent.i18n import t
from agent.prompts import render_prompt
from agent.records import frozen
from agent.security.files.folder_identity import FolderReplaced, real_start_folder
from agent.security.redaction import Redactor
from agent.security.sandbox.base import SandboxCommand, SpawnSpec
from agent.security.sandbox.unconfined import Unconfined
from agent.security.taint.taint import PRIVATE
from agent.settings import ToolSettings
from agent.text.terminal_output import TerminalOutput
from agent.tools.base import CallContext, ToolEnvironment
from agent.tools.output_spill import SpillBuffer, spill_folder
from agent.tools.shell.sandboxed_command import CommandLine, SandboxedCommands
from agent.types import ToolCall
from gateway.core.messages import MessageOptions
from gateway.presenter.text import seconds

if TYPE_CHECKING:
    from gateway.config import Settings

_STOPPED = "stopped by the person"  # text for the model
_LONG_S = 1.0
# Receives command output in chunks with arbitrary boundaries.
Show = Callable[[str], None]


@frozen
class Shell:
    """Settings for shell escapes: folders, output limit and secret redaction.

    Commands run in `folder`, a folder of `workspace`. `limit_bytes` limits the output for the
    model. `redactor` removes secrets, on the screen as well.
    """

    workspace: Path
    folder: Path
    limit_bytes: int
    redactor: Redactor

    @classmethod
    def of(cls, settings: "Settings", options: MessageOptions) -> Self:
        from gateway.runtime.secrets import redactor_of

        workspace = Path(options.cwd or settings.agent.workspace).resolve()
        folder = Path(options.start_folder or workspace)
        redactor = redactor_of(settings, os.environ)
        return cls(workspace, folder, settings.tools.output_limit_bytes, redactor)

    def check_folder(self) -> None:
        """Raise `FolderReplaced` unless `folder` is the workspace or really a folder inside it.

        A command for one folder, such as `rm -rf build`, must not run in another.
        """
        is_inside = real_start_folder(self.workspace, self.folder) is not None
        if self.folder != self.workspace and not is_inside:
            raise FolderReplaced(self.folder)


class UserCommand:
    """Shell command of the person; cancelling `run` kills it with all its child processes."""

    def __init__(self, shell: Shell, command: str, show: Show) -> None:
        self._shell = shell
        self._show = show
        self._commands = SandboxedCommands(ToolSettings(sandbox=_UserEnvironment()))
        workspace, nothing = shell.workspace, ToolCall("", "", {}, "")
        call = CallContext(
            nothing, ToolEnvironment("", workspace, workspace, owner=True), lambda *_: None
        )
        self._line = CommandLine(command, shell.folder, call, is_typed=True)
        marks = workspace if self._line.is_exposed() else None
        self._output = SpillBuffer(spill_folder(workspace), shell.limit_bytes, marks)
        self._terminal = TerminalOutput(partial_lines=True)
        self._cleaner = shell.redactor.stream()
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._began_at = time.monotonic()
        self._ended_at = _STOPPED

    async def run(self) -> None:
        """Run the command to its end; errors are reported by `ending`."""
        try:
            self._shell.check_folder()
            ended = await self._commands.run(self._line, None, self._take)
            code = ended.exit.code or 0
            self._ended_at = f"killed by signal {-code}" if code < 0 else f"exit code {code}"
        except ToolError as exc:
            self._ended_at = str(exc)
        finally:
            self._take(b"", last=True)
            self._output.close()

    @property
    def ending(self) -> str | None:
        """Result of the command for the person; None for a quick success with output."""
        took = time.monotonic() - self._began_at
        if self._ended_at == "exit code 0" and self._output.total_bytes and took < _LONG_S:
            return None
        ended = t("stopped by you") if self._ended_at == _STOPPED else self._ended_at
        return f"{ended}, {seconds(took)}"

    @property
    def context(self) -> dict[str, Any]:
        """Context for the next message: text for the model and its taint labels."""
        text = render_prompt(
            "ran_by_hand",
            folder=self._shell.folder,
            command=self._shell.redactor.clean(self._line.command),
            output=self._output.text().rstrip("\n"),
            ending=self._ended_at,
        )
        return {"text": text, "taint": sorted(self._commands.taint(self._line) | PRIVATE)}

    def _take(self, data: bytes, *, last: bool = False) -> None:
        clean = self._cleaner.feed(self._terminal.feed(data))
        if last:
            clean += self._cleaner.feed(self._terminal.end()) + self._cleaner.end_bytes()
        self._output.feed(clean)
        if text := self._decoder.decode(clean, last):
            self._show(text)


class _UserEnvironment(Unconfined):
    """Unsandboxed environment with the person's own variables."""

    @contextmanager
    def prepare(self, job: SandboxCommand) -> Iterator[SpawnSpec]:
        with super().prepare(job) as spawn:
            yield replace(spawn, env=dict(os.environ))
