"""`task` tool: delegate work to a sub-agent."""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from agent.errors import ToolError
from agent.i18n import mark_for_translation
from agent.prompts import render_prompt
from agent.security.taint.taint import NOTHING
from agent.tools.base import CallContext, SubagentRequest
from agent.tools.schema import parameters
from agent.tools.traits import ToolTraits
from agent.types import Effect, JsonSchema, Taint, ToolResult

DEFAULT_AGENT = "general"
PROMPT_LIMIT_CHARS = 50_000
_MAX_TITLE_CHARS = 80


class SubagentTool:
    """Tool that delegates work to a sub-agent.

    The call itself changes nothing: the sub-agent's calls are judged as if its caller had made
    them. A repeated call is the same task. `roster` lists the agents for the description.
    """

    name: ClassVar[str] = "task"
    traits: ClassVar[ToolTraits] = ToolTraits(
        "delegate",
        label=mark_for_translation("Waiting for a sub-agent: {subagent_type} {description}"),
        aliases=("agent", "delegate", "spawnagent"),
        argument_aliases={
            "agent": "subagent_type",
            "run_in_background": "background",
            "title": "description",
        },
        claude_names=("Task", "Agent"),
        has_costly_plan=True,
    )
    effect: ClassVar[Effect] = "read"
    # A sub-agent's turn has the same limits as any turn.
    lasts: ClassVar[bool] = True
    # The result carries the taint of the sub-agent.
    brings: ClassVar[frozenset[Taint]] = NOTHING
    parameters: ClassVar[JsonSchema] = parameters(
        description="string",
        prompt="string",
        subagent_type="string?",
        model="string?",
        background="boolean?",
        resume="string?",
        isolation="string?",
    )

    def __init__(self, roster: Callable[[], str] | None = None) -> None:
        self._roster = roster or (lambda: "general, explore, review")

    @property
    def description(self) -> str:
        return render_prompt("tools/task", agents=self._roster())

    async def run(self, args: Mapping[str, Any], call: CallContext) -> ToolResult:
        """Raise `AnswerPending` if the result comes later and the call must be repeated."""
        if call.spawn is None:
            raise ToolError("Sub-agents are not available here: do the work yourself.")
        prompt = args["prompt"].strip()
        if not prompt:
            raise ToolError("The prompt is empty: include everything the sub-agent needs to know.")
        if len(prompt) > PROMPT_LIMIT_CHARS:
            raise ToolError(
                f"The prompt has {len(prompt):,} characters; keep it under "
                f"{PROMPT_LIMIT_CHARS:,}, and name files instead of pasting them."
            )
        isolation = args.get("isolation")
        if isolation not in (None, "worktree", "none"):
            raise ToolError(f"isolation is worktree or none, not {isolation[:40]!r}.")
        title = " ".join(args["description"].split()) or " ".join(prompt.split())
        resume = str(args.get("resume") or "").strip().removeprefix("#")
        return await call.spawn(
            SubagentRequest(
                title=title[:_MAX_TITLE_CHARS],
                prompt=prompt,
                agent=args.get("subagent_type") or DEFAULT_AGENT,
                model=args.get("model"),
                background=args.get("background"),
                resume=resume or None,
                isolation=isolation,
            ),
            call,
        )
