"""Markdown fed in pieces: no text is lost, and a finished block never changes."""

from hypothesis import given
from hypothesis import strategies as st

from gateway.presenter.markdown_blocks import MarkdownBlocks

LINES = st.sampled_from(
    [
        "",
        "text",
        "- item",
        "  more",
        "1. one",
        "```py",
        "```",
        "~~~",
        "# head",
        "| a | b |",
        "漢字 😀",
    ]
)
TEXTS = st.lists(LINES, max_size=30).map("\n".join)


def feed_in_pieces(text: str, size: int) -> tuple[list[str], str]:
    blocks, finished = MarkdownBlocks(), []
    for start in range(0, len(text), size):
        finished += blocks.feed(text[start : start + size])
    return finished, blocks.finish()


@given(TEXTS, st.integers(1, 40))
def test_no_line_is_lost_or_moved(text: str, size: int) -> None:
    finished, rest = feed_in_pieces(text, size)
    filled = [line for line in text.split("\n") if line]
    assert [line for block in [*finished, rest] for line in block.split("\n") if line] == filled


@given(TEXTS, st.integers(1, 40))
def test_blocks_do_not_depend_on_the_piece_size(text: str, size: int) -> None:
    assert feed_in_pieces(text, size) == feed_in_pieces(text, 1)


def test_paragraph_is_finished_when_the_next_begins() -> None:
    blocks = MarkdownBlocks()
    assert blocks.feed("one\n\n") == []
    assert blocks.feed("t") == ["one"]
    assert blocks.tail == "t"


def test_fence_is_one_block() -> None:
    finished, rest = feed_in_pieces("```\na\n\nb\n~~~\n```\nafter", 3)
    assert finished == ["```\na\n\nb\n~~~\n```"]
    assert rest == "after"


def test_indented_paragraph_belongs_to_its_list() -> None:
    finished, _ = feed_in_pieces("1. one\n\n   more\n\nafter", 4)
    assert finished == ["1. one\n\n   more"]


def test_open_fence_is_the_opening_line() -> None:
    blocks = MarkdownBlocks()
    blocks.feed("````py\n```\ncode")
    assert blocks.open_fence == "````py"
    blocks.feed("\n````\n")
    assert blocks.open_fence is None
