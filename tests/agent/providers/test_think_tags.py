"""Thoughts in the text of local models."""

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import kore
from agent.events import Done, ModelEvent, Retry, TextDelta, ThinkingDelta, ThinkingEnd
from agent.providers.pool import ModelPool
from agent.providers.registry import ModelConfig
from agent.providers.text_stream import TextStream
from agent.types import Text, Thinking
from tests.fakes.model import ModelServer


def stream_events(speech: TextStream, *pieces: str) -> list[ModelEvent]:
    def events() -> Iterator[ModelEvent]:
        for piece in pieces:
            yield from speech.add_text(piece)
        yield from speech.pause()

    return list(events())


@pytest.mark.parametrize(
    ("text", "thinking", "said"),
    [
        ("<think>hm</think>\n\nYes", "hm", "Yes"),
        ("\n<think>\nhm\n</think>Yes", "\nhm\n", "Yes"),
        ("<thinking>a <think> b</thinking> Yes", "a <think> b", "Yes"),
        ("<think></think>Yes", "", "Yes"),
        ("<think>never ends", "never ends", ""),
        ("<think>half an end</thi", "half an end</thi", ""),
        ("Yes, <think>that is a tag</think>", "", "Yes, <think>that is a tag</think>"),
        ("<thin", "", "<thin"),
        ("<b>bold</b>", "", "<b>bold</b>"),
        ("  \n", "", "  \n"),
    ],
)
@pytest.mark.parametrize("size", [1, 3, 1000])
def test_leading_thinking_is_separated(text: str, thinking: str, said: str, size: int) -> None:
    speech = TextStream()
    events = stream_events(speech, *(text[n : n + size] for n in range(0, len(text), size)))
    assert (speech.thinking, speech.text) == (thinking, said)
    assert "".join(e.text for e in events if isinstance(e, TextDelta)) == said
    assert "".join(e.text for e in events if isinstance(e, ThinkingDelta)) == thinking
    assert events.count(ThinkingEnd(thinking)) == bool(thinking)


@pytest.mark.parametrize(
    ("text", "thinking", "said"),
    [
        ("hm\n</think>\n\nYes", "hm", "Yes"),
        ("hm </thinking>\nYes", "hm", "Yes"),
        ("\n</think>\n\nYes", "", "Yes"),
        ("only thoughts\n</think>", "only thoughts", ""),
        ("Close it with </think> there", "", "Close it with </think> there"),
        ("Close it with `\n</think>\n`", "", "Close it with `\n</think>\n`"),
        ("```\n</think>\n```", "", "```\n</think>\n```"),
        ("So: <think>\nhm\n</think>\nYes", "", "So: <think>\nhm\n</think>\nYes"),
    ],
)
def test_thinking_without_an_opening_tag_is_separated_at_the_end(
    text: str, thinking: str, said: str
) -> None:
    speech = TextStream()
    stream_events(speech, text)
    speech.take_unopened_thoughts()
    assert (speech.thinking, speech.text) == (thinking, said)
    assert speech.voids_text == (said != text)


async def test_thinking_without_an_opening_tag_is_retracted(
    model_server: ModelServer, tmp_path: Path
) -> None:
    model_server.script("I think.\n</think>\n\nYes")
    config = ModelConfig("m", "openai/x", model_server.url, "k")
    agent = kore.Agent(ModelPool("m", [config]), workspace=tmp_path)
    events = [event async for event in agent.stream("hi")]
    retry = next(n for n, event in enumerate(events) if isinstance(event, Retry))
    shown = "".join(event.text for event in events[retry:] if isinstance(event, TextDelta))
    assert shown == "Yes"
    (result,) = (event.result for event in events if isinstance(event, Done))
    assert result.text == "Yes"
    assert result.messages[-1].content == (Thinking("I think."), Text("Yes"))
    await agent.aclose()


def test_tags_are_text_if_the_server_separates_thinking() -> None:
    speech = TextStream()
    list(speech.add_thinking("hm"))
    stream_events(speech, "<think>", "x</think>")
    assert (speech.thinking, speech.text) == ("hm", "<think>x</think>")


TAGGED = st.lists(st.sampled_from(["<think>", "</think>", "<thinking>", "</", "a", " ", "\n", "<"]))


@given(TAGGED.map("".join), st.lists(st.integers(0, 60)))
def test_chunking_does_not_change_the_result(text: str, cuts: list[int]) -> None:
    whole, pieces = TextStream(), TextStream()
    stream_events(whole, text)
    places = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
    stream_events(pieces, *(text[a:b] for a, b in pairwise(places)))
    assert (pieces.thinking, pieces.text) == (whole.thinking, whole.text)
