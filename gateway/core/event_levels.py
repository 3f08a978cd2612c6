"""Importance of events, for watchers of many conversations or of important events only."""

from typing import Literal, get_args

from agent import events
from gateway.core.records import HistoryReset, MessageStored, SessionEvent

Level = Literal["debug", "info", "warning"]
LEVELS: tuple[Level, ...] = get_args(Level)

# All other types are "info".
_LEVELS: dict[str, Level] = {
    events.TextDelta.type: "debug",
    events.ThinkingDelta.type: "debug",
    events.ThinkingEnd.type: "debug",
    events.ToolCallDelta.type: "debug",
    events.ToolOutput.type: "debug",
    events.IterationStart.type: "debug",
    events.StreamEnd.type: "debug",
    events.State.type: "debug",
    events.UsageReport.type: "debug",
    events.ContextInvalidated.type: "debug",
    events.Retry.type: "warning",
    events.ApprovalAsked.type: "warning",
    events.Error.type: "warning",
}


def level_of_type(event_type: str) -> Level:
    """Return the level of a type; for `notice` and `from_agent`, the lowest possible one."""
    return "debug" if event_type == events.FromAgent.type else _LEVELS.get(event_type, "info")


def level_of(event: SessionEvent) -> Level:
    match event:
        case events.Notice(level="warning"):
            return "warning"
        case events.FromAgent(event=inner):
            is_warning = inner.get("level") == "warning"
            return "warning" if is_warning else level_of_type(str(inner.get("type")))
    return level_of_type(event.type)


def is_wanted(event: SessionEvent, kinds: tuple[str, ...], level: Level) -> bool:
    """Return whether an event has one of these types (none: all) and at least this level.

    The messages of a session are always wanted.
    """
    if isinstance(event, MessageStored | HistoryReset):
        return True
    is_kind = not kinds or event.type in kinds
    return is_kind and LEVELS.index(level_of(event)) >= LEVELS.index(level)
