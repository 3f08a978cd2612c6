from pathlib import Path
from sqlite3 import Connection

from agent.types import user
from gateway.histories import Histories
from gateway.store import sessions
from gateway.store.database import Database


def begin(connection: Connection, *texts: str) -> str:
    session = sessions.create_session(connection, "chat:7", 1.0)
    sessions.append_messages(connection, session, None, [user(text) for text in texts], 2.0)
    return session


async def texts(histories: Histories, session: str, asked: str) -> list[str]:
    window = await histories.open(session, user(asked))
    return [message.text for message in window.messages]


async def test_a_session_is_read_once_and_then_grows_in_memory(database: Database) -> None:
    histories = Histories(database)
    session = await database.run(begin, "a")
    assert await texts(histories, session, "a") == ["a"]
    assert await texts(histories, session, "b") == ["a", "b"]


async def test_what_was_forgotten_is_read_again(database: Database) -> None:
    histories = Histories(database)
    session = await database.run(begin, "a")
    await texts(histories, session, "a")
    await database.run(sessions.append_messages, session, None, [user("b")], 3.0)
    histories.forget(session)
    histories.forget("unknown")
    assert await texts(histories, session, "b") == ["a", "b"]


async def test_the_sessions_used_longest_ago_leave_the_memory(database: Database) -> None:
    histories = Histories(database, limit=5)
    one, two, three = [await database.run(begin, "a", "b") for _ in range(3)]
    for session in (one, two, three):
        await texts(histories, session, "b")
    await database.run(sessions.append_messages, one, None, [user("c")], 3.0)
    assert await texts(histories, one, "c") == ["a", "b", "c"]
    assert await texts(histories, three, "in memory") == ["a", "b", "in memory"]


async def test_a_session_larger_than_the_limit_is_kept_while_it_is_used(
    tmp_path: Path, database: Database
) -> None:
    histories = Histories(database, limit=1)
    session = await database.run(begin, "a", "b", "c")
    assert await texts(histories, session, "c") == ["a", "b", "c"]
    assert await texts(histories, session, "d") == ["a", "b", "c", "d"]
