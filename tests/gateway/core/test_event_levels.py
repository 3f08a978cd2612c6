"""Event levels: a subscriber receives events of the requested level and above."""

from agent import events
from agent.types import user
from gateway.core.event_levels import is_wanted, level_of
from gateway.core.records import HistoryReset, MessageStored, TurnStored


def of_agent(event: dict[str, object]) -> events.FromAgent:
    return events.FromAgent("explore", 1, "look", event)


def test_notices_and_subagent_events_have_their_own_level() -> None:
    assert level_of(events.Notice("info", "x")) == "info"
    assert level_of(events.Notice("warning", "x")) == "warning"
    assert level_of(of_agent({"type": "text_delta", "text": "x"})) == "debug"
    assert level_of(of_agent({"type": "tool_start"})) == "info"
    assert level_of(of_agent({"type": "notice", "level": "warning"})) == "warning"
    assert level_of(of_agent({"type": "error"})) == "warning"


def test_messages_always_pass_and_other_events_are_filtered() -> None:
    assert is_wanted(MessageStored(1, 1.0, user("x")), ("done",), "warning")
    assert is_wanted(HistoryReset(), ("done",), "warning")
    assert is_wanted(TurnStored(), (), "info")
    assert not is_wanted(TurnStored(), (), "warning")
    assert not is_wanted(TurnStored(), ("done",), "info")
    assert not is_wanted(events.TextDelta("x"), ("text_delta",), "info")
