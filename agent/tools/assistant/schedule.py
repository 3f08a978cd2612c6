"""`schedule` tool: reminders and scheduled tasks, once or recurring."""

from collections.abc import Awaitable, Mapping
from functools import cached_property
from typing import Any, ClassVar, TypeVar

from agent.errors import KoreError, ToolError
from agent.i18n import mark_for_translation
from agent.prompts import load_prompt
from agent.security.taint.taint import NOTHING
from agent.tools.base import CallContext, EffectPlan, Schedule, ScheduleRequest
from agent.tools.schema import parameters
from agent.tools.traits import ToolTraits
from agent.types import Effect, JsonSchema, Taint, ToolResult

ACTIONS = ("add", "list", "remove", "pause", "resume", "run")
TEXT_LIMIT_CHARS = 4_000

T = TypeVar("T")


class ScheduleTool:
    """Tool for scheduled jobs.

    `call.schedule` ensures that a call repeated after a crash is the same job.
    """

    name: ClassVar[str] = "schedule"
    traits: ClassVar[ToolTraits] = ToolTraits(
        "other",
        (),
        mark_for_translation("Schedule: {action} {id} {when} {text}"),
        aliases=("cron", "reminder", "remind", "setreminder", "schedulejob"),
        argument_aliases={
            "message": "text",
            **dict.fromkeys(("time", "at", "cron", "every"), "when"),
            "job_id": "id",
        },
        purpose="timetable",
    )
    effect: ClassVar[Effect] = "idempotent"
    # The taint of a listing comes with the result.
    brings: ClassVar[frozenset[Taint]] = NOTHING
    parameters: ClassVar[JsonSchema] = parameters(
        action="|".join(ACTIONS),
        when="string?",
        text="string?",
        prompt="boolean?",
        id="integer?",
    )

    @cached_property
    def description(self) -> str:
        return load_prompt("tools/schedule")

    async def plan(self, args: Mapping[str, Any], call: CallContext) -> EffectPlan:
        """Show the text or prompt of the job; it is sent to this chat only."""
        request = _parse_request(args)
        # Check first, so that a person is never asked about a request that is then rejected.
        await _for_model(call, _schedule_of(call).check(request, call))
        return EffectPlan(sends=request.text if request.action == "add" else None)

    async def run(self, args: Mapping[str, Any], call: CallContext) -> ToolResult:
        return await _for_model(call, _schedule_of(call)(_parse_request(args), call))


def _schedule_of(call: CallContext) -> Schedule:
    """Return the schedule of the call. Raises `ToolError`."""
    if call.schedule is None:
        raise ToolError("Nothing can be scheduled here: there is no scheduler.")
    return call.schedule


async def _for_model(call: CallContext, work: Awaitable[T]) -> T:
    """Await the work; raise `ToolError` with the text of a rejection."""
    try:
        return await work
    except ToolError:
        raise
    except KoreError as exc:
        text = call.error_text(exc)
        hint = exc.hint if text == str(exc) else None
        raise ToolError(f"{text}. {hint}" if hint else f"{text}.") from exc


def _parse_request(args: Mapping[str, Any]) -> ScheduleRequest:
    """Parse the arguments. Raises `ToolError`."""
    action = args["action"]
    text, when = args.get("text", "").strip(), args.get("when", "").strip()
    if action == "add" and not (text and when):
        raise ToolError("schedule: add needs when and text.")
    if len(text) > TEXT_LIMIT_CHARS:
        raise ToolError(
            f"schedule: the text has {len(text):,} characters; keep it under {TEXT_LIMIT_CHARS:,}."
        )
    number = args.get("id")
    if action not in ("add", "list") and number is None:
        raise ToolError(f"schedule: {action} needs the id of a job; list shows them.")
    return ScheduleRequest(
        action=action,
        when=when,
        text=text,
        prompt=args.get("prompt") is True,
        id=number,
    )
