import pytest

from agent.errors import KoreError
from agent.types import Message, Text, ToolCall, assistant, user
from gateway.sessions import lookup
from gateway.store.port import Transaction
from gateway.store.repositories.conversations import choices, sessions
from gateway.store.repositories.execution import windows
from gateway.turns.prompt import build_user_message
from tests.gateway.parts import chat_message


def test_sessions_created_in_one_second_have_different_ids(db: Transaction) -> None:
    names = [sessions.create_session(db, "chat:7", 1_000_000.0) for _ in range(12)]
    assert len(set(names)) == 12
    assert names[1] == f"{names[0]}_2"


def test_messages_are_appended_and_read_back_unchanged(db: Transaction) -> None:
    session = sessions.create_session(db, "chat:7", 1.0)
    call = ToolCall("1", "look", {"a": "ü"}, '{"a": "ü"}')
    messages = [
        user("hi", "[now]"),
        assistant("", (call,)),
        Message("tool", (Text("found"),), (), "1", True),
    ]
    assert sessions.append_messages(db, session, None, messages[:1], 2.0) == 1
    assert sessions.append_messages(db, session, None, messages[1:], 3.0) == 3
    assert sessions.load_all(db, session) == messages
    assert sessions.count_messages(db, session) == 3


def test_window_begins_after_dropped_messages(db: Transaction) -> None:
    session = sessions.create_session(db, "chat:7", 1.0)
    sessions.append_messages(db, session, None, [user("a"), assistant("b"), user("c")], 2.0)
    assert not windows.load(db, session).trimmed
    db.run("UPDATE session SET head = 2")
    window = windows.load(db, session)
    assert [m.text for m in window.messages] == ["c"]
    assert window.trimmed
    assert len(sessions.load_all(db, session)) == 3


def test_session_is_found_by_a_prefix_of_its_id(db: Transaction) -> None:
    first = sessions.create_session(db, "chat:7", 1_000_000.0)
    other = sessions.create_session(db, "chat:7", 2_000_000.0)
    assert lookup.find(db, first[:12]) == first
    assert lookup.find(db, first) == first
    for unknown in ("", "nope", "*", "[12]*", "?" * len(other)):
        with pytest.raises(KoreError, match="no session"):
            lookup.find(db, unknown)
    sessions.create_session(db, "chat:7", 1_000_000.0)
    assert lookup.find(db, first) == first
    with pytest.raises(KoreError, match="several"):
        lookup.find(db, first[:8])


def test_newest_sessions_come_first(db: Transaction) -> None:
    old = sessions.create_session(db, "chat:7", 1_000_000.0, lane="a")
    new = sessions.create_session(db, "chat:8", 2_000_000.0, lane="b")
    assert [info.id for info in sessions.recent(db, 9)] == [new, old]
    sessions.append_messages(db, old, None, [user("x")], 3_000_000.0)
    (info,) = sessions.recent(db, 1)
    assert (info.id, info.lane, info.messages, info.status) == (old, "a", 1, "idle")
    assert sessions.last_of(db, "chat:8") == new
    assert sessions.last_of(db, "nobody") is None


def test_model_can_be_chosen_and_reset(db: Transaction) -> None:
    session = sessions.create_session(db, "chat:7", 1.0)
    choices.put(db, session, choices.MODEL, "x/y")
    assert choices.load(db, session).get(choices.MODEL) == "x/y"
    choices.put(db, session, choices.MODEL, None)
    assert choices.load(db, session).get(choices.MODEL) is None


def test_unnamed_session_is_named_after_its_first_message(db: Transaction) -> None:
    session = sessions.create_session(db, "chat:7", 1.0)
    assert sessions.recent(db, 1)[0].name == ""
    first = "plan\n  the  garden " + "and more " * 20
    sessions.append_messages(db, session, None, [user("", "[now]"), user(first, "[now]")], 2.0)
    sessions.append_messages(db, session, None, [assistant("yes"), user("later")], 3.0)
    name = sessions.recent(db, 1)[0].name
    assert name.startswith("plan the garden and more and")
    assert (len(name), name[-1]) == (50, "…")
    db.run("UPDATE session SET name = 'mine'")
    assert sessions.recent(db, 1)[0].name == "mine"


def test_joined_messages_name_a_session_after_their_text(db: Transaction) -> None:
    joined = [chat_message("look at this"), chat_message("Eve's words", forwarded=True)]
    session = sessions.create_session(db, "chat:7", 1.0)
    sessions.append_messages(db, session, None, [build_user_message(joined)], 2.0)
    assert sessions.recent(db, 1)[0].name == "look at this Eve's words"
