"""Feed without its screen: thousands of entries, of which only the visible ones are laid out."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from textual.app import App, ComposeResult
from textual.geometry import Offset
from textual.pilot import Pilot
from textual.selection import Selection

from agent import events
from agent.turn.tool_catalog import started_event
from agent.types import Message, Result, Text, Thinking, ToolCall, Usage, user
from gateway.cli.tui.feed import Feed
from gateway.cli.tui.feed_content import FeedContent
from gateway.core.records import (
    Delivered,
    HistoryReset,
    MessageStored,
    SessionEvent,
    TurnStored,
)

ROWS, COLUMNS = 24, 60


def stored_message(role: str, text: str, seq: int) -> MessageStored:
    message = user(text) if role == "user" else Message("assistant", (Text(text),))
    return MessageStored(seq, 0.0, message)


def texts(content: FeedContent) -> list[str]:
    return [entry.text for entry in (*content.entries, *content.live())]


class _OnlyFeed(App[None]):
    def __init__(self, content: FeedContent) -> None:
        super().__init__()
        self.feed = Feed(content)

    def compose(self) -> ComposeResult:
        yield self.feed


@asynccontextmanager
async def feed_of(content: FeedContent) -> AsyncIterator[tuple[Feed, Pilot[None]]]:
    app = _OnlyFeed(content)
    async with app.run_test(size=(COLUMNS, ROWS)) as pilot:
        app.feed.show_news()
        await pilot.pause()
        yield app.feed, pilot


def visible(feed: Feed) -> list[str]:
    return [feed.render_line(y).text.strip() for y in range(feed.size.height)]


def long_talk(count: int) -> FeedContent:
    content = FeedContent()
    for n in range(1, count + 1):
        role = "user" if n % 2 else "assistant"
        content.take(stored_message(role, f"message {n} " + "words and words " * (n % 17), n))
    return content


async def test_only_visible_entries_of_thousands_are_rendered() -> None:
    content = long_talk(5000)
    typeset = 0
    for entry in content.entries:
        render = entry.render

        def counted(render=render):  # type: ignore[no-untyped-def]
            nonlocal typeset
            typeset += 1
            return render()

        entry.render = counted
    async with feed_of(content) as (feed, pilot):
        assert visible(feed)[-1].startswith(("message 5000", "words"))
        assert typeset < 4 * ROWS
        before = typeset
        content.take(events.TextDelta("a new word"))
        feed.show_news()
        await pilot.pause()
        assert visible(feed)[-1] == "a new word"
        assert typeset == before


async def test_scroll_position_is_kept_while_text_streams() -> None:
    content = long_talk(400)
    async with feed_of(content) as (feed, pilot):
        feed.scroll_to_row(100)
        await pilot.pause()
        before = visible(feed)
        for n in range(50):
            content.take(events.TextDelta(f"more {n}\n\n"))
            feed.show_news()
            await pilot.pause()
        assert visible(feed) == before
        feed.go_to_end()
        await pilot.pause()
        assert "more 49" in visible(feed)


async def test_lines_are_in_place_after_a_full_render() -> None:
    content = FeedContent()
    for n in range(1, 41):
        content.take(stored_message("assistant", f"```\ncode {n}\n```\n\nend {n}", n))
    async with feed_of(content) as (feed, pilot):
        whole = [line.strip() for line in feed.plain_text().split("\n")]
        await pilot.pause()
        assert visible(feed) == whole[-ROWS:]
        feed.scroll_home(animate=False)
        await pilot.pause()
        assert visible(feed) == whole[:ROWS]
        assert feed.virtual_size.height == len(whole)


async def test_resize_keeps_the_top_entry() -> None:
    content = long_talk(400)
    async with feed_of(content) as (feed, pilot):
        feed.scroll_to_row(100)
        await pilot.pause()
        top = next(line for line in visible(feed) if line)
        await pilot.resize_terminal(34, ROWS)
        await pilot.pause()
        assert next(line for line in visible(feed) if line).split()[:3] == top.split()[:3]


async def test_scrolling_shows_each_line_once() -> None:
    content = long_talk(120)
    async with feed_of(content) as (feed, pilot):
        expected_lines = [line.strip() for line in feed.plain_text().split("\n")]
        feed.scroll_to_row(0)
        await pilot.pause()
        seen: list[str] = []
        for top in range(0, feed.virtual_size.height, ROWS):
            feed.scroll_to(y=top, animate=False, immediate=True, force=True)
            await pilot.pause()
            lines = visible(feed)
            seen += lines[len(seen) - feed.scroll_offset.y :]
        assert seen == expected_lines


async def test_selected_text_is_copied() -> None:
    content = long_talk(10)
    async with feed_of(content) as (feed, _):
        lines = feed.plain_text().split("\n")
        at = next(n for n, line in enumerate(lines) if "message 2" in line)
        selection = Selection(Offset(0, at), Offset(9, at))
        copied = feed.get_selection(selection)
        assert copied is not None
        assert copied[0] == lines[at][:9]


def test_stored_message_replaces_the_streamed_text() -> None:
    content = FeedContent()
    stream = "First part.\n\nSecond part"
    for piece in (stream[:5], stream[5:20], stream[20:]):
        content.take(events.TextDelta(piece))
    assert texts(content) == ["First part.", "Second part"]
    content.take(stored_message("assistant", stream + ".", 1))
    assert texts(content) == ["First part.", "Second part."]
    content.take(Delivered(stream + ".", "answer", "e", True))
    content.take(TurnStored())
    assert texts(content) == ["First part.", "Second part."]
    # Events may arrive twice after a reconnection.
    content.take(stored_message("assistant", stream + ".", 1))
    assert texts(content) == ["First part.", "Second part."]


def test_command_replies_are_shown() -> None:
    content = FeedContent()
    content.take(stored_message("user", "/status", 1))
    content.take(Delivered("**Model** default", "answer", "e", True))
    assert texts(content)[-1] == "**Model** default"


def test_retry_removes_the_streamed_text() -> None:
    content = FeedContent()
    content.take(events.TextDelta("half an ans"))
    content.take(events.Retry("overloaded", 1, 3, 0.1))
    assert [text for text in texts(content) if "half" in text] == []
    assert "overloaded" in texts(content)[-1]


def test_calls_of_an_unwatched_turn_are_shown_with_their_results() -> None:
    content = FeedContent()
    call = ToolCall("c", "read_file", {"path": "a.py"}, "{}")
    content.take(MessageStored(1, 0.0, Message("assistant", (Thinking("hm"),), (call,))))
    answer = Message("tool", (Text("1 line"),), tool_call_id="c")
    content.take(MessageStored(2, 0.0, answer))
    assert texts(content) == ["hm", "Reading a.py\n1 line"]
    # Another reply reuses the id.
    content.take(MessageStored(3, 0.0, Message("assistant", (), (call,))))
    content.take(started_event(call))
    content.take(events.ToolResulted("c", "read_file", "2 lines", False, 0.1))
    content.take(MessageStored(4, 0.0, answer))
    assert texts(content)[2:] == ["Reading a.py\n2 lines"]


def test_turn_note_follows_its_last_message() -> None:
    content = FeedContent()
    result = Result(True, "yes", "s", (), usage=Usage(input=10, output=2))
    for event in (events.TextDelta("yes"), events.Done(result)):
        content.take(event)
    content.take(stored_message("assistant", "yes", 1))
    content.take(TurnStored())
    assert texts(content) == ["yes", "10 tokens in, 2 out"]


def test_rewound_history_is_shown_from_the_start() -> None:
    content = long_talk(6)
    edition = content.edition
    content.take(HistoryReset())
    assert texts(content) == []
    assert content.edition != edition
    content.take(stored_message("user", "again", 1))
    assert texts(content) == ["again"]


async def test_history_is_reset_while_entries_are_estimated() -> None:
    content = FeedContent()
    async with feed_of(content) as (feed, _):
        for n in range(200):
            content.take(Delivered(f"reply {n}", "answer", "e", True))
        feed.show_news()
        content.take(HistoryReset())
        feed.show_news()
        assert feed.virtual_size.height == 0


_EVENTS = st.one_of(
    st.text(max_size=40).map(events.TextDelta),
    st.text(max_size=40).map(lambda text: events.ThinkingDelta(text, len(text))),
    st.text(max_size=20).map(lambda text: events.ToolStart("c", "exec", {"command": text})),
    st.text(max_size=60).map(lambda text: events.ToolOutput("c", text, "stdout")),
    st.text(max_size=60).map(lambda text: events.ToolResulted("c", "exec", text, False, 0.0)),
    st.text(max_size=60).map(lambda text: Delivered(text, "answer", "e", True)),
    st.text(max_size=60).map(lambda text: events.Notice("warning", text)),
    st.integers(1, 9).map(lambda seq: stored_message("assistant", f"reply {seq}", seq)),
    st.integers(1, 9).map(lambda seq: stored_message("user", f"words {seq}", seq)),
    st.just(TurnStored()),
    st.just(HistoryReset()),
)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@settings(max_examples=60, deadline=None)
@given(st.lists(_EVENTS, max_size=40))
async def test_lines_match_the_entries(order: list[SessionEvent]) -> None:
    """Heights, positions and lines agree, and no line contains a terminal control character."""
    content = FeedContent()
    async with feed_of(content) as (feed, _):
        for event in order:
            content.take(event)
            feed.show_news()
        plain = feed.plain_text()
        feed.go_to_end()
        lines = plain.split("\n") if plain else []
        assert feed.virtual_size.height == (len(lines) if content.entries or content.live() else 0)
        assert not [letter for letter in plain if ord(letter) < 32 and letter != "\n"]
