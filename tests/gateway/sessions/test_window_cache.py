from pathlib import Path

from agent.types import assistant, user
from gateway.sessions.window_cache import SessionWindowCache, bytes_of
from gateway.store.port import Transaction
from gateway.store.repositories.conversations import sessions
from gateway.store.sqlite.engine import SqliteStore


def begin(tx: Transaction, *texts: str) -> str:
    session = sessions.create_session(tx, "chat:7", 1.0)
    sessions.append_messages(tx, session, None, [user(text) for text in texts], 2.0)
    return session


async def texts(histories: SessionWindowCache, session: str, question: str) -> list[str]:
    window = await histories.open(session, user(question))
    return [message.text for message in window.messages]


async def test_session_is_read_once_and_then_grows_in_memory(database: SqliteStore) -> None:
    histories = SessionWindowCache(database)
    session = await database.transact(begin, "a")
    assert await texts(histories, session, "a") == ["a"]
    assert await texts(histories, session, "b") == ["a", "b"]


async def test_evicted_window_is_reloaded(database: SqliteStore) -> None:
    histories = SessionWindowCache(database)
    session = await database.transact(begin, "a")
    await texts(histories, session, "a")
    await database.transact(sessions.append_messages, session, None, [user("b")], 3.0)
    histories.evict(session)
    histories.evict("unknown")
    assert await texts(histories, session, "b") == ["a", "b"]


async def test_least_recently_used_sessions_are_evicted(database: SqliteStore) -> None:
    histories = SessionWindowCache(database, limit_bytes=bytes_of([user("a")] * 5))
    result, two, three = [await database.transact(begin, "a", "b") for _ in range(3)]
    for session in (result, two, three):
        await texts(histories, session, "b")
    await database.transact(sessions.append_messages, result, None, [user("c")], 3.0)
    assert await texts(histories, result, "c") == ["a", "b", "c"]
    assert await texts(histories, three, "in memory") == ["a", "b", "in memory"]


async def test_session_larger_than_the_limit_is_kept_while_in_use(
    tmp_path: Path, database: SqliteStore
) -> None:
    histories = SessionWindowCache(database, limit_bytes=1)
    session = await database.transact(begin, "a", "b", "c")
    assert await texts(histories, session, "c") == ["a", "b", "c"]
    assert await texts(histories, session, "d") == ["a", "b", "c", "d"]


async def test_added_messages_count_towards_the_byte_limit(database: SqliteStore) -> None:
    histories = SessionWindowCache(database, limit_bytes=100_000)
    result, two = [await database.transact(begin, "a") for _ in range(2)]
    await texts(histories, result, "a")
    window = await histories.open(two, user("a"))
    window.messages.append(assistant("x" * 200_000))
    histories.count(two)
    await database.transact(sessions.append_messages, result, None, [user("b")], 3.0)
    assert await texts(histories, result, "not in memory any more") == ["a", "b"]
    # The large entry was used last, and stayed until then.
    assert await texts(histories, two, "a") == ["a"]


async def test_shortened_window_is_measured_again(database: SqliteStore) -> None:
    histories = SessionWindowCache(database, limit_bytes=100_000)
    result, two = [await database.transact(begin, "a") for _ in range(2)]
    window = await histories.open(result, user("x" * 40_000))
    window.messages.append(user("x" * 40_000))
    histories.count(result)
    del window.messages[1:]
    histories.count(result)
    await histories.open(two, user("x" * 40_000))
    assert await texts(histories, result, "in memory") == ["a", "in memory"]
