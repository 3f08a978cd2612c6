"""`process` tool: manage the background processes of `exec`."""

import math
from collections.abc import Mapping
from functools import cached_property
from typing import Any, ClassVar

from agent.errors import ToolError
from agent.i18n import mark_for_translation
from agent.prompts import load_prompt
from agent.security.taint.taint import PRIVATE
from agent.settings import ToolSettings
from agent.tools.base import CallContext, EffectPlan
from agent.tools.schema import parameters
from agent.tools.shell.background_process import BackgroundProcess, report
from agent.tools.shell.exec import Exec
from agent.tools.shell.process_registry import ProcessRegistry
from agent.tools.traits import ToolTraits
from agent.types import Effect, JsonSchema, Taint, ToolResult

MAX_WAIT_S = 300.0
# Long enough for most programs to respond to their input.
_ANSWER_TIMEOUT_S = 1.0
_LAST = "\x04"


class ProcessTool:
    """List, read, write to and kill the background processes of a conversation.

    A call never takes effect twice: a crash that could repeat it has ended the processes.
    """

    name: ClassVar[str] = "process"
    traits: ClassVar[ToolTraits] = ToolTraits(
        "execute",
        label=mark_for_translation("Background command: {action} {id} {text}"),
        aliases=("processes",),
        argument_aliases={
            "input": "text",
            "data": "text",
            "process_id": "id",
            "timeout_s": "wait_s",
        },
        governed_by=Exec.name,
    )
    effect: ClassVar[Effect] = "idempotent"
    brings: ClassVar[frozenset[Taint]] = PRIVATE
    parameters: ClassVar[JsonSchema] = parameters(
        action="list|output|input|kill", id="integer?", text="string?", wait_s="number?"
    )

    def __init__(self, settings: ToolSettings, processes: ProcessRegistry) -> None:
        self._limit_bytes = settings.output_limit_bytes
        self._processes = processes

    @cached_property
    def description(self) -> str:
        return load_prompt("tools/process")

    async def plan(self, args: Mapping[str, Any], call: CallContext) -> EffectPlan:
        """Declare input together with the command that reads it, because a shell would run it."""
        if args["action"] != "input":
            return EffectPlan()
        process, text = self._one(args, call), _text(args)
        origin = process.origin
        if not call.may_write and not origin.read_only:
            raise ToolError(load_prompt("sandbox/process_may_write"))
        command = _feeding(origin.command, text)
        return EffectPlan(
            command=command,
            folder=origin.folder,
            hosts=origin.hosts,
            read_only=origin.read_only,
            # Another process may have this number later.
            unbound=origin.command.split()[0],
        )

    async def run(self, args: Mapping[str, Any], call: CallContext) -> ToolResult:
        action = args["action"]
        if action == "list":
            return self._list(call)
        process = self._one(args, call)
        wait_s = _wait(args)
        if action == "input":
            text = _text(args)
            data = text.removesuffix(_LAST).encode("utf-8", "replace")
            is_exposed = "untrusted" in call.taint
            await process.write(data, is_exposed=is_exposed, last=text.endswith(_LAST))
            wait_s = max(wait_s, _ANSWER_TIMEOUT_S)
        elif action == "kill":
            await self._processes.kill(process)
        return await report(process, call, self._limit_bytes, wait_s, first_words=action == "input")

    def _list(self, call: CallContext) -> ToolResult:
        processes = self._processes.of(call.session)
        lines = [
            f"{process.number}: {process.title} "
            f"[{process.state}, {process.unread_bytes:,} new bytes]"
            for process in processes
        ]
        return ToolResult("\n".join(lines) or "There are no background processes here.")

    def _one(self, args: Mapping[str, Any], call: CallContext) -> BackgroundProcess:
        processes = self._processes.of(call.session)
        number = args.get("id")
        if number is None and len(processes) == 1:
            return processes[0]
        if number is None:
            raise ToolError(f"process {args['action']} needs the argument 'id'.")
        return self._processes.get(call.session, number)


def _text(args: Mapping[str, Any]) -> str:
    text = args.get("text")
    if not isinstance(text, str) or not text:
        raise ToolError("process input needs the argument 'text'.")
    return text


def _wait(args: Mapping[str, Any]) -> float:
    wait_s = float(args.get("wait_s") or 0)
    if math.isnan(wait_s) or wait_s < 0:
        raise ToolError(f"wait_s must be a number of seconds, found {wait_s}.")
    return min(wait_s, MAX_WAIT_S)


def _feeding(command: str, text: str) -> str:
    """Return a shell line that passes a text to a command."""
    end = "INPUT"
    while end in text:
        end += "_"
    return f"{{ {command}\n}} <<'{end}'\n{text.removesuffix(_LAST)}\n{end}"
