"""Answers that a console waits for, and the events that end the wait."""

from dataclasses import replace

from agent import events
from agent.types import Result
from gateway.cli.console.chat.message_builder import MessageBuilder
from gateway.cli.console.chat.pending_answers import PendingAnswers
from gateway.core.messages import InboundMessage, OutboundKind
from gateway.core.records import Delivered

SPEAKER = MessageBuilder("main")


def sent(awaited: PendingAnswers, *texts: str) -> list[InboundMessage]:
    messages = [SPEAKER.build(text) for text in texts]
    for message, text in zip(messages, texts, strict=True):
        awaited.add(message, text)
    return messages


def delivery(event_id: str | None, kind: OutboundKind = "answer", last: bool = True) -> Delivered:
    return Delivered("", kind, event_id, last)


def test_answer_settles_its_message_and_joined_messages() -> None:
    awaited = PendingAnswers()
    _, second, third = sent(awaited, "one", "two", "three")
    assert awaited.settle(delivery(second.event_id))
    assert awaited.next_text == "three"
    assert awaited.settle(delivery(third.event_id))
    assert not awaited


def test_command_answered_during_a_turn_settles_nothing_else() -> None:
    awaited = PendingAnswers()
    _, command = sent(awaited, "one", "/status")
    assert awaited.settle(delivery(command.event_id))
    assert awaited.next_text == "one"


def test_parts_and_notices_settle_nothing() -> None:
    awaited = PendingAnswers()
    (message,) = sent(awaited, "one")
    assert not awaited.settle(delivery(message.event_id, last=False))
    assert not awaited.settle(delivery(None, kind="notice"))
    assert awaited


def test_turn_is_foreign_only_without_pending_messages() -> None:
    awaited = PendingAnswers()
    awaited.notice(events.TextDelta("hi"))
    assert awaited.has_foreign_turn
    assert awaited.settle(delivery(None))
    assert not awaited
    sent(awaited, "one")
    awaited.notice(events.TextDelta("hi"))
    assert not awaited.has_foreign_turn


def test_rejected_message_is_not_awaited() -> None:
    awaited = PendingAnswers()
    (message,) = sent(awaited, "one")
    awaited.remove(message)
    assert not awaited


def test_queued_message_is_shown_when_its_turn_begins() -> None:
    awaited = PendingAnswers()
    begin, done = events.SessionStart("s", "p", "m"), events.Done(Result(True, "", "s", ()))
    (first,) = sent(awaited, "one")
    assert awaited.follow(begin) == ""
    for text in ("/status", "two", "three"):
        awaited.add(SPEAKER.build(text), text, text)
    assert awaited.queued_count == 3
    # A question ended the task of the first turn, so the turn starts again.
    assert awaited.follow(begin) == ""
    output = awaited.follow(done)
    awaited.settle(delivery(first.event_id))
    assert [output, awaited.follow(begin), awaited.follow(done)] == ["", "two", ""]
    assert awaited.follow(begin) == "three"


def test_goal_keeps_the_console_waiting_between_its_turns() -> None:
    awaited = PendingAnswers()
    (message,) = sent(awaited, "/goal take all steps")
    awaited.notice(events.GoalChanged("active", "take all steps", 0, 20))
    assert awaited.settle(replace(delivery(message.event_id), outcome="active"))
    assert awaited.settle(delivery("goal:1"))
    assert awaited
    notice = delivery(None, kind="notice")
    assert not awaited.settle(notice)
    assert awaited.settle(replace(notice, outcome="stopped"))
    assert not awaited


def test_removed_goal_ends_the_wait() -> None:
    awaited = PendingAnswers()
    awaited.notice(events.GoalChanged("active", "take all steps", 0, 20))
    assert awaited
    awaited.notice(events.GoalChanged("none", "take all steps", 0, 20))
    assert not awaited
