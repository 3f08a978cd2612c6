"""Difficult answers, one per file: their messages are valid for Telegram and lose no text."""

import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.text.visible import escape_invisible, replace_lone_surrogates
from gateway.channels.telegram.outbound.render import mark_repeat, render, render_preview
from gateway.channels.telegram.outbound.rich_message import plain_entities
from gateway.core.messages import OutboundPart
from tests.gateway.channels.telegram.strict import problems

CORPUS = Path(__file__).with_name("corpus")
ANSWERS = sorted(path.name for path in CORPUS.iterdir() if path.name != "lost.json")
# Words that may be lost, by file: LaTeX commands, names of references, renumbered list numbers.
LOST = json.loads((CORPUS / "lost.json").read_text())
PREFIXES = 6

_WORDS = re.compile(r"[A-Za-z0-9]+")
_LONGEST = 3000
# Handled by the parser: an HTML entity is a single character, and our own marks are not entities.
_ENTITY = re.compile(r"&(?:#x?[0-9a-f]+|lt|gt|amp|quot|copy);", re.IGNORECASE)
_HIDDEN = re.compile("[\ufdd0-\ufdd2\x00-\x08\x0b-\x1f\x7f]")


def answer(name: str) -> str:
    path = CORPUS / name
    if path.suffix == ".md":
        return path.read_bytes().decode()
    data = json.loads(path.read_text())
    text: str = data.get("before", "") + data["text"] * data.get("times", 1) + data.get("after", "")
    return text


def visible_texts(parts: tuple[OutboundPart, ...]) -> Iterator[str]:
    """Yield all text that reaches the reader: message text, link targets and code languages."""
    for part in parts:
        yield part.text
        for entity in plain_entities(part):
            yield from map(str, entity.extra.values())


def words(text: str) -> Counter[str]:
    return Counter(
        _WORDS.findall(_HIDDEN.sub(" ", _ENTITY.sub(" ", replace_lone_surrogates(text))))
    )


def letter_counts(of: Counter[str]) -> Counter[str]:
    return Counter(letter for word in of.elements() for letter in word)


def signs(text: str) -> Counter[str]:
    """Return characters that are neither words nor markup: emoji, symbols, punctuation."""
    text = _HIDDEN.sub("", replace_lone_surrogates(text).removeprefix("\ufeff"))
    return Counter(char for char in text if not char.isascii() and not char.isspace())


@pytest.mark.parametrize("name", ANSWERS)
def test_every_message_is_valid(name: str) -> None:
    parts = render(answer(name))
    assert parts
    assert {n: texts for n, part in enumerate(parts) if (texts := problems(part))} == {}
    assert {
        n: texts for n, part in enumerate(parts) if (texts := problems(mark_repeat(part)))
    } == {}


@pytest.mark.parametrize("name", ANSWERS)
def test_no_text_is_lost(name: str) -> None:
    markdown = answer(name)
    seen = "\n".join(visible_texts(render(markdown)))
    assert not signs(escape_invisible(markdown)) - signs(seen)
    expected_words, result = words(markdown), words(seen)
    if max(map(len, markdown.split())) > _LONGEST:
        # Text that fills a message without a space is cut anywhere, so compare its characters.
        expected_words, result = letter_counts(expected_words), letter_counts(result)
    assert expected_words - result == Counter(LOST.get(name, {}))


@pytest.mark.parametrize("name", ANSWERS)
def test_every_prefix_can_be_shown_while_it_streams(name: str) -> None:
    markdown = answer(name)
    step = max(1, min(len(markdown), 20_000) // PREFIXES)
    for end in range(1, min(len(markdown), 20_000) + step, step):
        part = render_preview(markdown[:end], "⏳ Reading `x.py`")
        if part is not None:
            assert problems(part) == [], markdown[:end]


def test_corpus_has_its_minimum_size() -> None:
    assert len(ANSWERS) >= 60
