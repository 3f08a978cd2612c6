"""`HistoryRunStore` with the histories of Kore."""

from collections.abc import Callable
from pathlib import Path

import pytest

from agent.errors import ConfigError
from agent.run.history import History, JsonlHistory, MemoryHistory
from agent.run.store import HistoryRunStore
from agent.tools.file_views import FileViews
from agent.turn.hooks import withdrawn_prompt
from agent.types import Message, ToolCall, assistant, user
from tests.agent.props import scripted, task

HISTORIES: list[Callable[[Path], History]] = [lambda folder: MemoryHistory(), JsonlHistory]


@pytest.fixture(params=HISTORIES, ids=["memory", "jsonl"])
def history(request: pytest.FixtureRequest, tmp_path: Path) -> History:
    made: History = request.param(tmp_path)
    return made


def open_store(history: History, *initial: Message) -> HistoryRunStore:
    return HistoryRunStore(history, "s", FileViews(), initial)


async def test_run_is_stored_when_it_has_ended(history: History) -> None:
    store = open_store(history)
    await store.begin(user("hello"))
    assert list(await history.load("s")) == []
    await store.finish([assistant("hi")])
    assert list(await history.load("s")) == [user("hello"), assistant("hi")]


async def test_later_run_sees_the_earlier_one(history: History) -> None:
    await history.append("s", [user("hello"), assistant("hi")])
    store = open_store(history)
    conversation = await store.begin(user("again"))
    assert not store.is_new
    assert conversation.messages == [user("hello"), assistant("hi"), user("again")]


async def test_new_session_stores_its_initial_messages(history: History) -> None:
    beginning = [user("before"), assistant("yes")]
    store = open_store(history, *beginning)
    conversation = await store.begin(user("now"))
    assert conversation.messages == [*beginning, user("now")]
    await store.finish([])
    assert list(await history.load("s")) == [*beginning, user("now")]


async def test_initial_messages_must_be_valid(history: History) -> None:
    store = open_store(history, assistant("", (ToolCall("1", "x", {}, "{}"),)))
    with pytest.raises(ConfigError):
        await store.begin(user("now"))


async def test_withdrawn_prompt_is_not_stored(history: History, tmp_path: Path) -> None:
    store = open_store(history)
    await store.begin(user("secret"))
    agent, _ = scripted([], tmp_path)
    await store.steps(task(agent)).replace_prompt(withdrawn_prompt())
    await store.finish([])
    assert list(await history.load("s")) == [withdrawn_prompt()]
