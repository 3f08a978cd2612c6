"""`summarize` tool: a sub-agent reads a long file in place of the conversation."""

from collections.abc import Mapping
from functools import cached_property
from typing import Any, ClassVar

from agent.errors import ToolError
from agent.i18n import mark_for_translation
from agent.prompts import load_prompt, render_prompt
from agent.security.taint.taint import NOTHING
from agent.settings import ToolSettings
from agent.text.visible import escape_line
from agent.tools.base import CallContext, EffectPlan, SubagentRequest
from agent.tools.files.workspace_scope import WorkspaceScope
from agent.tools.schema import parameters
from agent.tools.traits import ToolTraits
from agent.types import Effect, JsonSchema, Taint, ToolResult

# This agent only reads and changes nothing.
AGENT = "explore"
_MAX_FOCUS_CHARS = 1_000


class Summarize:
    """Tool that summarizes a file with a sub-agent, whose calls are judged and counted.

    `model` is the sub-agent's model, None for the model of the conversation.
    """

    name: ClassVar[str] = "summarize"
    traits: ClassVar[ToolTraits] = ToolTraits(
        "think", label=mark_for_translation("Summarizing {path}")
    )
    effect: ClassVar[Effect] = "read"
    lasts: ClassVar[bool] = True
    # The result carries the taint of the sub-agent.
    brings: ClassVar[frozenset[Taint]] = NOTHING
    parameters: ClassVar[JsonSchema] = parameters(path="string", focus="string?")

    def __init__(self, settings: ToolSettings, model: str | None = None) -> None:
        self._scope = WorkspaceScope(settings)
        self._model = model

    @cached_property
    def description(self) -> str:
        return load_prompt("tools/summarize")

    async def plan(self, args: Mapping[str, Any], call: CallContext) -> EffectPlan:
        return EffectPlan(reads=(self._scope.find(args["path"], call),))

    async def run(self, args: Mapping[str, Any], call: CallContext) -> ToolResult:
        """Raise `AnswerPending` if the result comes later and the call must be repeated."""
        if call.spawn is None:
            raise ToolError("Sub-agents are not available here: read the file yourself.")
        path = self._scope.find(args["path"], call)
        focus = escape_line(args.get("focus") or "")[:_MAX_FOCUS_CHARS]
        request = SubagentRequest(
            title=escape_line(f"Summarize {path.name}")[:80],
            prompt=render_prompt(
                "summarize_file", path=path, focus=f"What matters: {focus}." if focus else ""
            ),
            agent=AGENT,
            model=self._model,
        )
        return await call.spawn(request, call)
