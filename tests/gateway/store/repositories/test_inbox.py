from dataclasses import replace

from gateway.core.channel_events import Undecoded
from gateway.core.messages import InboundMessage
from gateway.store.conditions import WAITING
from gateway.store.port import Transaction
from gateway.store.repositories.conversations import choices, sessions
from gateway.store.repositories.delivery import inbox, undecoded_updates
from gateway.store.repositories.delivery.inbox import LANE_LIMIT, InboxBatch, InboxEntry
from gateway.store.repositories.execution import claims
from gateway.store.repositories.execution.claims import (
    CommandClaim,
    SessionBusy,
    TurnClaim,
    suspect_groups,
)
from gateway.turns.prompt import build_user_message
from tests.gateway.store.repositories.claims import (
    LANE,
    claim,
    claim_turn,
    finish,
    message_in,
    take,
)
from tests.postgres_server import engine


def edit(original: InboundMessage, text: str, date: int) -> InboundMessage:
    return message_in(
        text,
        original.chat_id,
        event_id=f"{original.event_id}:{date}",
        message_id=original.message_id,
        edited=True,
    )


def texts(found: TurnClaim) -> list[str]:
    return [message.content for message in found.messages]


def test_only_lanes_with_new_work_are_named(db: Transaction) -> None:
    first = message_in("a")
    assert take(db, first, message_in("b", "2")) == {LANE, "chat:bot:2"}
    assert take(db, first) == set()
    assert take(db, message_in("denied"), dead="no") == set()


def test_unreadable_message_becomes_a_tombstone_and_blocks_nothing(db: Transaction) -> None:
    arrival = InboxBatch("chat", "bot", 5.0, cursors={"offset": "9"})
    assert inbox.accept(db, arrival, [InboxEntry(message_in("a"))]) == {LANE}
    ((seq, _),) = undecoded_updates.keep(db, arrival, [Undecoded("update:8", "not JSON", "{")])
    assert undecoded_updates.keep(db, arrival, [Undecoded("update:8", "not JSON", "{")]) == []
    assert undecoded_updates.at(db, seq - 1) is None
    assert inbox.waiting_count(db) == 1
    assert texts(claim_turn(db)) == ["a"]


def test_cursor_is_dropped_after_a_quiet_time(db: Transaction) -> None:
    inbox.accept(db, InboxBatch("chat", "bot", 100.0, cursors={"offset": "9"}), [])
    assert inbox.load_cursors(db, "chat", "bot", not_before=100.0) == {"offset": "9"}
    assert inbox.load_cursors(db, "chat", "bot", not_before=100.1) == {}
    assert inbox.load_cursors(db, "chat", "other", not_before=0.0) == {}


def test_cursor_follows_the_platform_backwards(db: Transaction) -> None:
    for offset in ("900", "3"):
        inbox.accept(db, InboxBatch("chat", "bot", 100.0, cursors={"offset": offset}), [])
    assert inbox.load_cursors(db, "chat", "bot", 0.0) == {"offset": "3"}


def test_cursors_with_other_names_remain(db: Transaction) -> None:
    for cursors in ({"s72594_4483_1934": "a", "room:1": "5"}, {"room:1": "6"}):
        inbox.accept(db, InboxBatch("chat", "bot", 100.0, cursors=cursors), [])
    assert inbox.load_cursors(db, "chat", "bot", 0.0) == {"s72594_4483_1934": "a", "room:1": "6"}


def test_edit_replaces_a_waiting_message(db: Transaction) -> None:
    original = message_in("frist")
    take(db, original)
    assert take(db, edit(original, "first", 1)) == set()
    assert texts(claim_turn(db)) == ["first"]


def test_last_of_several_edits_is_used(db: Transaction) -> None:
    original = message_in("one")
    first, second = edit(original, "two", 1), edit(original, "three", 2)
    take(db, original, first, second)
    take(db, original, first, second)
    turn_claim = claim_turn(db)
    assert texts(turn_claim) == ["three"]
    finish(db, turn_claim)
    assert claim(db) is None


def test_edit_of_a_started_message_is_a_new_message(db: Transaction) -> None:
    original = message_in("one")
    take(db, original)
    finish(db, claim_turn(db))
    assert take(db, edit(original, "two", 1)) == {LANE}
    turn_claim = claim_turn(db)
    assert texts(turn_claim) == ["two"]
    assert "edited after it was first sent" in str(build_user_message(turn_claim.messages).content)


def test_edit_without_a_change_is_not_answered(db: Transaction) -> None:
    original = message_in("one")
    take(db, original)
    finish(db, claim_turn(db))
    assert take(db, edit(original, "one", 1)) == set()


def test_each_message_is_one_turn(db: Transaction) -> None:
    take(db, message_in("a"), message_in("b"))
    first = claim_turn(db)
    assert texts(first) == ["a"]
    finish(db, first)
    assert texts(claim_turn(db)) == ["b"]


def test_messages_over_the_lane_limit_are_joined(db: Transaction) -> None:
    take(db, *(message_in(str(n)) for n in range(LANE_LIMIT + 2)))
    first = claim_turn(db)
    assert texts(first) == ["0", "1", "2"]
    finish(db, first)
    assert texts(claim_turn(db)) == ["3"]


def test_command_is_never_joined(db: Transaction) -> None:
    take(
        db,
        message_in("0"),
        message_in("/new"),
        *(message_in(str(n)) for n in range(LANE_LIMIT + 2)),
    )
    first = claim_turn(db)
    assert texts(first) == ["0"]
    finish(db, first)
    assert isinstance(claim(db), CommandClaim)


def claims_after_kill(db: Transaction, *lanes: str) -> list[TurnClaim]:
    """Return the turns that the next process resumes after a kill."""
    claims.recover(db)
    return [claim_turn(db, lane) for lane in lanes]


def test_interrupted_turn_comes_first_and_uses_an_attempt(db: Transaction) -> None:
    take(db, message_in("a"), message_in("b"))
    first = claim_turn(db)
    again = [claims_after_kill(db, LANE)[0] for _ in range(3)]
    assert {claim.turn for claim in again} == {first.turn}
    assert [claim.resumed for claim in again] == [True] * 3
    assert [claim.exhausted for claim in again] == [False, False, True]


def test_turn_interrupted_with_others_runs_alone_before_an_attempt_counts(
    db: Transaction,
) -> None:
    lanes = [LANE, "chat:bot:2"]
    take(db, message_in("a"), message_in("b", "2"))
    first, second = (claim_turn(db, lane) for lane in lanes)
    assert not any(claim.exhausted for _ in range(1) for claim in claims_after_kill(db, *lanes))
    assert suspect_groups(db) == []
    claims.recover(db)
    assert suspect_groups(db) == [[lane] for lane in lanes]
    for _ in range(2):
        assert not claim_turn(db).exhausted
        claims.recover(db)
        # The turn charged the fewest attempts is next.
        assert suspect_groups(db) == [[lane] for lane in lanes[::-1]]
    assert claim_turn(db).turn == first.turn
    claims.recover(db)
    assert claim_turn(db).exhausted
    assert claim_turn(db, lanes[1]) == replace(second, resumed=True, user_message=None, begins=None)


def cut_off(db: Transaction, *lanes: str) -> None:
    """End the process while it works on these lanes only."""
    for lane in lanes:
        claim_turn(db, lane)
    claims.recover(db)


def test_each_crash_halves_the_suspects(db: Transaction) -> None:
    lanes = [f"chat:bot:{n}" for n in range(20)]
    take(db, *(message_in("go on", str(n)) for n in range(20)))
    for _ in range(2):
        cut_off(db, *lanes)
    ends = 2
    while len(groups := suspect_groups(db)) > 1 or len(groups[0]) > 1:
        # The process ends in the group with lane 13; the groups before it have continued.
        guilty = next(group for group in groups if lanes[13] in group)
        for group in groups[: groups.index(guilty)]:
            for lane in group:
                finish(db, claim_turn(db, lane))
        cut_off(db, *guilty)
        ends += 1
    assert groups == [[lanes[13]]]
    assert ends <= 8


def test_suspect_running_with_new_turns_uses_an_attempt(db: Transaction) -> None:
    take(db, message_in("bad"), message_in("b", "2"))
    for _ in range(2):
        cut_off(db, LANE, "chat:bot:2")
    finish(db, claim_turn(db, "chat:bot:2"))
    for n in range(3):
        assert not claim_turn(db).exhausted
        take(db, message_in("new", f"new {n}"))
        cut_off(db, f"chat:bot:new {n}")
        # The turn cut off together with the suspect continues first.
        assert suspect_groups(db) == [[f"chat:bot:new {n}"], [LANE]]
        finish(db, claim_turn(db, f"chat:bot:new {n}"))
    assert claim_turn(db).exhausted


def test_suspect_is_not_charged_for_an_earlier_interrupted_turn(db: Transaction) -> None:
    """A new turn ends the process while a suspect is at work."""
    take(db, message_in("a"), message_in("b", "2"))
    for _ in range(2):
        cut_off(db, LANE, "chat:bot:2")
    finish(db, claim_turn(db, "chat:bot:2"))
    take(db, message_in("bad", "3"))
    for _ in range(2):
        cut_off(db, LANE, "chat:bot:3")
    # The new turn is now a suspect, too, and continues before the other.
    assert suspect_groups(db) == [["chat:bot:3"], [LANE]]
    for _ in range(3):
        assert not claim_turn(db, "chat:bot:3").exhausted
        claims.recover(db)
    assert claim_turn(db, "chat:bot:3").exhausted
    assert not claim_turn(db).exhausted


def test_unclaimed_turn_is_not_suspected(db: Transaction) -> None:
    take(db, message_in("a"), message_in("b", "2"))
    claim_turn(db), claim_turn(db, "chat:bot:2")
    claims.recover(db)
    for _ in range(3):
        assert not claim_turn(db).exhausted
        claims.recover(db)
    assert claim_turn(db).exhausted
    assert not claim_turn(db, "chat:bot:2").exhausted


def test_lane_waits_for_another_lane_of_its_session(db: Transaction) -> None:
    take(db, message_in("a"), message_in("b", "2"))
    first = claim_turn(db)
    sessions.bind(db, "chat:bot:2", first.session)
    assert claim(db, "chat:bot:2") == SessionBusy(LANE)
    finish(db, first)
    assert claim_turn(db, "chat:bot:2").session == first.session


def test_claim_includes_the_selected_model(db: Transaction) -> None:
    take(db, message_in("a"), message_in("b"))
    first = claim_turn(db)
    assert first.choices.get(choices.MODEL) is None
    choices.put(db, first.session, choices.MODEL, "x/y")
    finish(db, first)
    assert claim_turn(db).choices.get(choices.MODEL) == "x/y"


def test_count_of_waiting_messages_uses_an_index(db: Transaction) -> None:
    if engine() != "sqlite":
        return  # PostgreSQL reads small tables whole and plans again as they grow
    where = f"SELECT count(*) FROM inbox WHERE {WAITING}"
    plan = db.one(f"EXPLAIN QUERY PLAN {where}")[3]
    assert "inbox_waiting" in plan
    claiming = f"SELECT seq, payload FROM inbox WHERE lane = 'x' AND {WAITING} ORDER BY seq LIMIT 1"
    plan = db.one(f"EXPLAIN QUERY PLAN {claiming}")[3]
    assert "SEARCH" in plan
    assert "inbox_waiting" in plan


def test_lanes_with_work_are_found_after_a_restart(db: Transaction) -> None:
    assert inbox.lanes_with_work(db) == []
    take(db, message_in("a"), message_in("b", "2"))
    finish(db, claim_turn(db))
    claim_turn(db, "chat:bot:2")
    assert inbox.lanes_with_work(db) == ["chat:bot:2"]
    assert inbox.has_work(db, "chat:bot:2")
    assert not inbox.has_work(db, LANE)
