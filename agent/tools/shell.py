"""`exec`: runs a shell command in the workspace."""

import codecs
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from agent.errors import ToolError
from agent.prompts import load
from agent.settings import ToolSettings
from agent.tools.arguments import parameters
from agent.tools.base import CallContext, Plan
from agent.tools.output import Output, spill_folder
from agent.tools.process import Exit, run
from agent.tools.scope import Scope
from agent.types import Effect, JsonSchema, ToolResult

MAX_TIMEOUT_S = 600


class Exec:
    """Runs `sh -c` with a deadline; the result ends with the exit code."""

    name: ClassVar[str] = "exec"
    effect: ClassVar[Effect] = "unsafe"
    parameters: ClassVar[JsonSchema] = parameters(
        command="string", timeout_s="number?", workdir="string?"
    )

    def __init__(self, settings: ToolSettings) -> None:
        self._settings = settings
        self._scope = Scope(settings)

    @property
    def description(self) -> str:
        return load("tools/exec")

    async def plan(self, args: Mapping[str, Any], call: CallContext) -> Plan:
        """The exact command."""
        self._folder(args, call)
        return Plan(command=_command(args))

    async def run(self, args: Mapping[str, Any], call: CallContext) -> ToolResult:
        command = _command(args)
        folder = self._folder(args, call)
        timeout_s = self._timeout(args)
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        with Output(spill_folder(call.workspace), self._settings.output_limit_bytes) as output:

            def on_output(data: bytes) -> None:
                output.feed(data)
                if text := decoder.decode(data):
                    call.output(text, "stdout")

            try:
                end = await run(command, folder, timeout_s, on_output)
            except OSError as exc:
                reason = (exc.strerror or type(exc).__name__).lower()
                raise ToolError(f"The command could not be started: {reason}.") from exc
        text = output.text().rstrip("\n")
        return ToolResult(f"{text}\n{_ending(end, timeout_s)}".lstrip("\n"), end.code != 0)

    def _folder(self, args: Mapping[str, Any], call: CallContext) -> Path:
        asked = args.get("workdir") or "."
        folder = self._scope.find(asked, call)
        if not folder.is_dir():
            raise ToolError(f"workdir {asked!r} is not a folder.")
        return folder

    def _timeout(self, args: Mapping[str, Any]) -> float:
        asked = args.get("timeout_s")
        timeout_s = self._settings.exec_timeout_s if asked is None else float(asked)
        if not timeout_s > 0 or math.isinf(timeout_s):
            raise ToolError(f"timeout_s must be a number of seconds above 0, found {asked}.")
        return min(timeout_s, max(MAX_TIMEOUT_S, self._settings.exec_timeout_s))


def _command(args: Mapping[str, Any]) -> str:
    command: str = args["command"]
    if not command.strip():
        raise ToolError("The command is empty.")
    if "\0" in command:
        raise ToolError("The command holds a NUL character; give it without.")
    try:
        command.encode()
    except UnicodeEncodeError as exc:
        raise ToolError("The command is not valid text.") from exc
    return command


def _ending(end: Exit, timeout_s: float) -> str:
    if end.code is None:
        return f"[stopped: it took longer than {timeout_s:g} s]"
    if end.code < 0:
        return f"[killed by signal {-end.code}]"
    return f"[exit code {end.code}]"
