import json

import pytest

from agent.context.history_validation import is_valid
from agent.prompts import load_prompt
from agent.types import Effect, ImageFile, ToolCall, ToolResult, assistant
from gateway.core.messages import InboundMessage, OutboundPart, Sender
from gateway.store.conditions import DENIED
from gateway.store.errors import ReplayRefused
from gateway.store.port import Transaction
from gateway.store.repositories.conversations import sessions
from gateway.store.repositories.delivery import inbox, outbox
from gateway.store.repositories.delivery.inbox import InboxBatch, InboxEntry
from gateway.store.repositories.delivery.outbox import OutgoingReply
from gateway.store.repositories.execution import claims, turns, windows
from gateway.store.repositories.execution.claims import CommandClaim
from tests.gateway.store.repositories.claims import (
    LANE,
    claim,
    claim_turn,
    finish,
    message_in,
    take,
)

EFFECTS: dict[str, Effect] = {"1": "read", "2": "idempotent", "3": "unsafe", "4": "unsafe"}
CALLS = tuple(ToolCall(id_, f"tool{id_}", {}, "{}") for id_ in EFFECTS)


def planned(db: Transaction) -> int:
    """Create a turn whose model has requested four calls."""
    take(db, message_in("go"))
    turn_claim = claim_turn(db)
    turns.add_reply(db, turn_claim.turn, turn_claim.session, [assistant("", CALLS)], EFFECTS, 7.0)
    return turn_claim.turn


def test_only_a_started_unsafe_call_is_unknown_after_a_restart(db: Transaction) -> None:
    turn = planned(db)
    for call in CALLS[:3]:
        turns.start_call(db, turn, call)
    assert claim_turn(db).resumed
    states = [state for (state,) in db.all("SELECT state FROM step ORDER BY n")]
    assert states == ["started", "started", "unknown", "planned"]
    known = turns.known_results(db, turn)
    assert list(known) == ["3"]
    assert known["3"].is_error
    # A stopped turn runs no more calls, so the result of a planned call is known, too.
    stopped = turns.known_results(db, turn, stopped=True)
    assert list(stopped) == ["3", "4"]
    assert stopped["3"] == known["3"]
    assert stopped["4"].for_model == load_prompt("not_run")


def test_denied_message_cannot_be_replayed(db: Transaction) -> None:
    inbox.accept(db, InboxBatch("chat", "bot", 1.0), [InboxEntry(message_in("let me in"), DENIED)])
    ((seq,),) = db.all("SELECT seq FROM inbox")
    with pytest.raises(ReplayRefused, match="denied"):
        turns.replay(db, seq)
    assert not inbox.has_work(db, LANE)


def test_newest_step_of_an_id_has_the_result(db: Transaction) -> None:
    turn = planned(db)
    (session,) = db.one("SELECT session FROM turn")
    for call in CALLS:
        turns.finish_call(db, turn, call, ToolResult(f"first {call.id}"))
    again = CALLS[0]
    turns.add_reply(db, turn, session, [assistant("", (again,))], {"1": "read"}, 8.0)
    assert turns.known_results(db, turn) == {}
    turns.finish_call(db, turn, again, ToolResult("second", is_error=True))
    assert turns.known_results(db, turn) == {"1": ToolResult("second", is_error=True)}
    results = [
        json.loads(result or "{}").get("text")
        for (result,) in db.all("SELECT result FROM step ORDER BY n")
    ]
    assert results == ["first 1", "first 2", "first 3", "first 4", "second"]


def test_pictures_of_a_result_are_known_after_a_restart(db: Transaction) -> None:
    turn = planned(db)
    result = ToolResult("seen", images=(ImageFile("/a.png", "image/png", "ab"),))
    turns.finish_call(db, turn, CALLS[0], result)
    assert turns.known_results(db, turn) == {"1": result}


def test_abandoned_turn_leaves_a_valid_conversation(db: Transaction) -> None:
    turn = planned(db)
    turns.finish_call(db, turn, CALLS[0], ToolResult("found"))
    turns.give_up(db, turn, [], "a bug", 9.0)
    (session,) = db.one("SELECT session FROM turn")
    stored = sessions.load_all(db, session)
    assert is_valid(stored)
    assert stored[2].text == "found"
    assert stored[-1] == assistant(load_prompt("given_up"))
    assert claim(db) is None


def test_stop_marks_the_running_turn(db: Transaction) -> None:
    planned(db)
    stop = message_in("/stop")
    take(db, stop, dead="stop")
    assert turns.request_stop(db, LANE, stop.event_id) == "running"
    assert claim_turn(db).stop_requested


def test_stop_withdraws_only_earlier_messages(db: Transaction) -> None:
    stop = message_in("/stop")
    take(db, message_in("before"))
    take(db, stop, dead="stop")
    take(db, message_in("behind"))
    assert turns.request_stop(db, LANE, stop.event_id) == "withdrawn"
    assert [m.content for m in claim_turn(db).messages] == ["behind"]


def test_stop_without_work_returns_none(db: Transaction) -> None:
    stop = message_in("/stop")
    take(db, stop, dead="stop")
    assert turns.request_stop(db, LANE, stop.event_id) is None


def test_clean_shutdown_uses_no_attempt(db: Transaction) -> None:
    take(db, message_in("a"))
    claim_turn(db)
    for _ in range(9):
        claims.suspend_all(db)
        claims.recover(db)
        assert not claim_turn(db).exhausted
    assert db.one("SELECT attempts FROM turn") == (1,)


def test_progress_renews_attempts(db: Transaction) -> None:
    turn = planned(db)
    for call in CALLS:
        for _ in range(2):
            claims.recover(db)
            assert not claim_turn(db).exhausted
        turns.finish_call(db, turn, call, ToolResult("x"))


@pytest.mark.parametrize("seq", [99, -1])
def test_only_a_message_can_be_replayed(db: Transaction, seq: int) -> None:
    with pytest.raises(ReplayRefused, match="unknown"):
        turns.replay(db, seq)


def test_one_shot_message_is_not_replayed(db: Transaction) -> None:
    sender = Sender("0")
    message = InboundMessage("cli", "local", "once-1", sender, "e", content="x", received_at=1.0)
    inbox.accept(db, InboxBatch("cli", "local", 5.0), [InboxEntry(message)])
    with pytest.raises(ReplayRefused, match="one-shot"):
        turns.replay(db, 1)


def test_message_is_not_replayed_while_it_is_answered(db: Transaction) -> None:
    take(db, message_in("a"))
    turn_claim = claim_turn(db)
    with pytest.raises(ReplayRefused, match=r"^at-work"):
        turns.replay(db, turn_claim.seq)
    finish(db, turn_claim)
    assert turns.replay(db, turn_claim.seq) == LANE
    assert claim_turn(db).seq == turn_claim.seq


def test_replayed_command_is_answered_again(db: Transaction) -> None:
    take(db, message_in("/help"))
    for expected in (1, 2):
        turn_claim = claim(db)
        assert isinstance(turn_claim, CommandClaim)
        reply = OutgoingReply("c", turn_claim.message.route, [OutboundPart("help")])
        turns.finish_command(db, turn_claim.seq, reply, 7.0)
        assert db.one("SELECT count(*) FROM outbox") == (expected,)
        turns.replay(db, turn_claim.seq)


def test_abandoned_one_shot_lanes_are_ended(db: Transaction) -> None:
    take(db, message_in("a", "once-1"), message_in("b", "once-1"), message_in("c", "2"))
    claim_turn(db, "chat:bot:once-1")
    reply = OutgoingReply("x", message_in("", "once-1").route, [OutboundPart("late")])
    outbox.put(db, None, [reply], 7.0)
    assert turns.abandon(db, "chat:bot:once-", 8.0) == 1
    assert inbox.lanes_with_work(db) == ["chat:bot:2"]
    assert outbox.lanes_with_mail(db) == []


@pytest.mark.parametrize(
    ("cause", "words"),
    [
        ("given_up", "errors on my side"),
        ("cut_off", "process ended each time"),
        ("ended_early", "work on it was stopped"),
    ],
)
def test_model_is_informed_of_the_cause_of_an_end(
    db: Transaction, cause: turns.EndCause, words: str
) -> None:
    take(db, message_in("a", "once-1"))
    turn_claim = claim_turn(db, "chat:bot:once-1")
    turns.give_up(db, turn_claim.turn, [], "its reason", 8.0, cause=cause)
    assert words in windows.load(db, turn_claim.session).messages[-1].text


def test_model_is_informed_that_its_terminal_has_closed(db: Transaction) -> None:
    take(db, message_in("a", "once-1"))
    turn_claim = claim_turn(db, "chat:bot:once-1")
    turns.abandon(db, "chat:bot:once-", 8.0)
    assert "was stopped" in windows.load(db, turn_claim.session).messages[-1].text


def test_question_that_ended_the_turn_is_known_after_a_restart(db: Transaction) -> None:
    turn = planned(db)
    tool_result = ToolResult("asked", ends_with="Which colour?")
    turns.finish_call(db, turn, CALLS[0], tool_result)
    assert turns.known_results(db, turn) == {"1": tool_result}
