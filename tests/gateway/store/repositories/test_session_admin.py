import pytest

from agent.errors import KoreError
from agent.types import Message, Text, ToolCall, assistant, user
from gateway.commands import is_command
from gateway.sessions import lookup
from gateway.store.port import Transaction
from gateway.store.repositories import usage
from gateway.store.repositories.conversations import choices, session_admin, sessions
from gateway.store.repositories.conversations.session_admin import SessionOwner
from gateway.store.repositories.delivery import inbox
from gateway.store.repositories.delivery.inbox import InboxBatch, InboxEntry
from gateway.store.repositories.execution import claims, windows
from gateway.store.repositories.execution.claims import CommandClaim, TurnClaim
from gateway.turns.prompt import build_user_message
from tests.gateway.parts import chat_message

OWNER = SessionOwner("chat:7", "chat:bot:1")
LANE = "chat:bot:1"


def say(db: Transaction, *texts: str) -> None:
    inbox.accept(
        db, InboxBatch("chat", "bot", 1.0), [InboxEntry(chat_message(text)) for text in texts]
    )


def claim(db: Transaction) -> object:
    return claims.claim(db, LANE, 6.0, is_command, build_user_message)


def session(db: Transaction) -> str:
    session_id = sessions.create_session(db, "chat:7", 1.0, lane=LANE)
    sessions.append_messages(db, session_id, None, [user("one"), assistant("two")], 2.0)
    return session_id


def test_fork_copies_its_parent_and_then_diverges(db: Transaction) -> None:
    parent = session(db)
    choices.put(db, parent, choices.MODEL, "a/b")
    sessions.add_taint(db, parent, frozenset({"untrusted"}))
    db.run("UPDATE session SET head = 1")
    fork = session_admin.fork(db, parent, OWNER, 3.0)
    assert sessions.load_all(db, fork) == sessions.load_all(db, parent)
    assert windows.load(db, fork) == windows.load(db, parent)
    assert choices.load(db, fork).get(choices.MODEL) == "a/b"
    assert sessions.taint_of(db, fork) == {"untrusted"}
    sessions.append_messages(db, fork, None, [user("three")], 4.0)
    assert sessions.count_messages(db, parent) == 2
    (info,) = sessions.recent(db, 9, session=fork)
    assert (info.parent, info.messages) == (parent, 3)


def test_copy_is_distinguished_by_its_name(db: Transaction) -> None:
    def name(session_id: str) -> str:
        return sessions.recent(db, 1, session=session_id)[0].name

    parent = session(db)
    first, second = (session_admin.fork(db, parent, OWNER, 3.0) for _ in range(2))
    assert [name(session_id) for session_id in (parent, first, second)] == [
        "one",
        "one (2)",
        "one (3)",
    ]
    session_admin.rename(db, parent, "the plan")
    assert name(session_admin.fork(db, parent, OWNER, 4.0)) == "the plan (2)"
    # A copy of a copy continues the count, and a shortened name still shows its number.
    assert name(session_admin.fork(db, first, OWNER, 5.0)) == "one (4)"
    session_admin.rename(db, parent, "x" * 200)
    assert name(session_admin.fork(db, parent, OWNER, 6.0)).endswith("x… (2)")


def test_preview_shows_the_first_and_last_messages_once(db: Transaction) -> None:
    session_id = session(db)
    call = ToolCall("1", "look", {}, "{}")
    result = Message("tool", (Text("found"),), (), "1")
    more = [user("three"), assistant("", (call,)), result, assistant("four"), user("five")]
    sessions.append_messages(db, session_id, None, more, 3.0)

    def excerpts(first: int, last: int) -> list[list[str]]:
        preview = session_admin.preview(db, session_id, first, last)
        assert preview.info.messages == 7
        return [[excerpt.text for excerpt in part] for part in (preview.beginning, preview.end)]

    assert excerpts(1, 2) == [["one"], ["four", "five"]]
    assert excerpts(3, 3) == [["one", "two", "three"], ["four", "five"]]
    assert excerpts(9, 9) == [["one", "two", "three", "four", "five"], []]
    assert excerpts(0, 1) == [[], ["five"]]


def test_fork_excludes_a_running_turn(db: Transaction) -> None:
    parent = session(db)
    say(db, "go on")
    running = claim(db)
    assert isinstance(running, TurnClaim)
    reply = assistant("", (ToolCall("1", "look", {}, "{}"),))
    sessions.append_messages(db, parent, running.turn, [reply], 3.0)
    fork = session_admin.fork(db, parent, OWNER, 3.0)
    assert [m.text for m in sessions.load_all(db, fork)] == ["one", "two"]
    # The messages of the parent's turn are not counted twice.
    ((own,),) = db.all("SELECT count(*) FROM message WHERE turn_id = ?", (running.turn,))
    assert own == 2


def test_usage_is_attributed_to_its_session(db: Transaction) -> None:
    parent = session(db)
    say(db, "go on")
    running = claim(db)
    assert isinstance(running, TurnClaim)
    db.run(
        "INSERT INTO usage (turn_id, n, session, lane, chat, principal, model, input, output,"
        " cached, cost_nusd, at) VALUES (?, 1, ?, ?, ?, 'chat:7', 'm', 5, 5, 0, 7, 1.0)",
        (running.turn, parent, LANE, LANE),
    )
    fork = session_admin.fork(db, parent, OWNER, 3.0)
    assert usage.of_session(db, parent).cost_nusd == 7
    assert usage.of_session(db, fork).cost_nusd == 0
    assert usage.of_all(db, 0.0).cost_nusd == 7


def test_name_is_one_line_and_can_be_removed(db: Transaction) -> None:
    session_id = session(db)
    assert lookup.rename(db, session_id, "  the\n plan ") == "the plan"
    assert sessions.recent(db, 1)[0].name == "the plan"
    lookup.rename(db, session_id, "")
    assert sessions.recent(db, 1)[0].name == "one"
    with pytest.raises(KoreError, match="limited to 200"):
        lookup.rename(db, session_id, "x" * 201)


def test_paused_session_runs_only_commands(db: Transaction) -> None:
    session_id = session(db)
    session_admin.set_status(db, session_id, "paused")
    say(db, "hello", "/model")
    command = claim(db)
    assert isinstance(command, CommandClaim)
    assert command.message.content == "/model"
    db.run("UPDATE inbox SET dead_reason = 'done' WHERE seq = ?", (command.seq,))
    assert claim(db) is None
    assert session_admin.set_status(db, session_id, "open") == [LANE]
    going_on = claim(db)
    assert isinstance(going_on, TurnClaim)
    assert (going_on.session, going_on.messages[0].content) == (session_id, "hello")


def test_closed_session_is_left_by_its_lanes(db: Transaction) -> None:
    session_id = session(db)
    session_admin.set_status(db, session_id, "closed")
    assert sessions.recent(db, 1)[0].status == "closed"
    say(db, "hello")
    next_claim = claim(db)
    assert isinstance(next_claim, TurnClaim)
    assert next_claim.session != session_id
