import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gateway.channels.telegram.outbound.render import (
    EMPTY_ANSWER,
    REPEAT_NOTE,
    as_file_if_long,
    mark_repeat,
    render,
    render_preview,
)
from gateway.channels.telegram.outbound.split import MAX_UNITS
from gateway.channels.telegram.utf16 import units
from gateway.core.messages import OutboundPart
from tests.gateway.channels.telegram.outbound.pages import check

PIECES = st.sampled_from(
    [
        "word ", "**bold** ", "*it", "_u_ ", "~~gone~~ ", "`code` ", "||spoiler|| ", "\n", "\n\n",
        "# Head\n", "- item\n", "  - inner\n", "1. one\n", "> quote\n", "```py\nx = 1\n```\n",
        "```\n", "````md\n```js\nlet a\n```\n````\n", "| a | b |\n|---|---|\n| 1 | 2 |\n",
        "[link](https://x.y/z) ", "[half](https://", "![img](https://x.y/i.png)", "<b>html</b> ",
        "<div>\nblock\n</div>\n", "<", "Vec<String> ", "&amp; ", "\\(\\frac{1}{2}\\) ", "$x^2$ ",
        "👩\u200d💻", "🇩🇪", "語語。", "שלום עולם ",
        "e\u0301", "\ud83d", "\udc4d", "\x00", "\u200d", "---\n", "\\", "`", "[", "](", "~", "|",
    ]
)  # fmt: skip
MARKDOWN = st.lists(PIECES, max_size=60).map("".join)


@given(MARKDOWN)
def test_any_markdown_gives_valid_messages(markdown: str) -> None:
    parts = render(markdown)
    assert parts
    for part in parts:
        check(part)


@given(MARKDOWN.filter(bool), st.integers(min_value=200, max_value=3000))
def test_long_markdown_gives_valid_messages(markdown: str, times: int) -> None:
    for part in render((markdown * times)[:9000]):
        check(part)


@given(MARKDOWN)
def test_all_words_are_rendered(markdown: str) -> None:
    words = [f"w{n}x" for n in range(markdown.count("word"))]
    for word in words:
        markdown = markdown.replace("word", word, 1)
    shown = " ".join(part.text for part in render(markdown))
    addresses = " ".join(
        str(e.extra.get("url", "")) for part in render(markdown) for e in part.entities
    )
    for word in words:
        assert word in shown or word in addresses


@given(MARKDOWN)
@example("text **bo")
@example("[half](https://exa")
@example("```py\nx")
def test_every_prefix_of_a_growing_answer_can_be_shown(markdown: str) -> None:
    for end in range(0, len(markdown), 7):
        part = render_preview(markdown[:end])
        if part is not None:
            check(part)


@given(st.text(alphabet=st.characters(), max_size=300))
def test_any_text_gives_valid_messages(text: str) -> None:
    for part in render(text):
        check(part)


def test_forty_thousand_characters_are_rendered_completely() -> None:
    paragraph = "Ein Satz mit **Nachdruck** und 語 und 😀. " * 20
    parts = render("\n\n".join([paragraph] * 48))
    assert len(parts) >= 9
    joined = re.sub(r"\s", "", "".join(part.text for part in parts))
    assert joined == re.sub(r"[\s*]", "", paragraph) * 48
    assert sum(e.type == "bold" for part in parts for e in part.entities) == 20 * 48


def test_entities_cover_the_formatted_characters() -> None:
    (part,) = render("😀 **bold** `code`\n\n```py\nprint(1)\n```")
    raw = part.text.encode("utf-16-le")
    marked = {
        e.type: raw[2 * e.offset : 2 * (e.offset + e.length)].decode("utf-16-le")
        for e in part.entities
    }
    assert marked == {"bold": "bold", "code": "code", "pre": "print(1)"}
    assert [e.extra for e in part.entities if e.type == "pre"] == [{"language": "py"}]


@pytest.mark.parametrize(
    ("markdown", "shown"),
    [
        ("use Vec<String> here", "use Vec<String> here"),
        ("<details>\n\nmore\n</details>", "<details>\n\nmore\n</details>"),
        ("`a<b>`", "a<b>"),
        ("```html\n<p>\n```", "<p>"),
        ("a<br>b", "a\nb"),
        ("```tex\n\\(\\frac{1}{2}\\)\n```", "\\(\\frac{1}{2}\\)"),
        ("so \\(\\frac{1}{2}\\)", "so ½"),
        ("[docs](docs/x.md)", "docs (docs/x.md)"),
        ("[app](http://localhost:80/)", "app (http://localhost:80/)"),
        ("\\[no link\\](x)", "[no link](x)"),
    ],
)
def test_text_dropped_by_a_parser_is_shown(markdown: str, shown: str) -> None:
    (part,) = render(markdown)
    assert part.text == shown


def test_text_with_tags_keeps_its_format() -> None:
    (part,) = render("**A** `Vec<u8>` holds <T> and <b>*this*</b>")
    assert part.text == "A Vec<u8> holds <T> and <b>this</b>"
    assert [entity.type for entity in part.entities] == ["bold", "code", "italic"]


def test_relative_links_are_not_links() -> None:
    (part,) = render("[docs](docs/x.md) [site](https://x.y)")
    assert [e.extra["url"] for e in part.entities if e.type == "text_link"] == ["https://x.y"]


def test_empty_answer_becomes_a_sentence() -> None:
    for nothing in ("", "  \n", "```\n```"):
        assert render(nothing) == (OutboundPart(EMPTY_ANSWER),)
        assert render_preview(nothing) is None


@pytest.mark.parametrize(
    "hostile",
    [
        "\\(" * 20_000, "\\[ \\frac{1}{2} " * 3000, "\\(" + "\\frac{" * 3000, "[" * 40_000,
        "<a " * 13_000, "> " * 5000, "||" + "\n>" * 20_000 + "||", "*a " * 13_000,
        "<div>\n\n" * 5000,
    ],
)  # fmt: skip
@pytest.mark.timeout(10)
def test_hostile_text_is_rendered_in_time(hostile: str) -> None:
    for part in render(hostile):
        check(part)


def test_unfinished_end_of_a_stream_shows_no_marks() -> None:
    for text in ("done **", "done `", "done ["):
        part = render_preview(text)
        assert part is not None
        assert part.text.startswith("done")
        assert "*" not in part.text
    # A closing backtick is not unmatched: without it, the content would become a link.
    code = render_preview("see `https://a.example/x`")
    assert code is not None
    assert [entity.type for entity in code.entities] == ["code"]
    link = render_preview("see [the docs](https://exam")
    assert link is not None
    assert link.text == "see the docs"


@pytest.mark.parametrize(
    ("begun", "shown"),
    [
        ("a **bo", [("bold", "bo")]),
        ("a **bold*", [("bold", "bold")]),
        ("a **bold**", [("bold", "bold")]),
        ("a **bold **", [("bold", "bold")]),
        ("a bold**", []),
        ("a `co", [("code", "co")]),
        ("a\n\n```py\nx = '`'", [("pre", "x = '`'")]),
    ],
)
def test_unclosed_markup_is_formatted_in_a_preview(
    begun: str, shown: list[tuple[str, str]]
) -> None:
    part = render_preview(begun)
    assert part is not None
    assert [(e.type, part.text[e.offset :][: e.length]) for e in part.entities] == shown
    assert "*" not in part.text


def test_repeat_mark_shifts_entities() -> None:
    (part,) = render("**bold** text")
    marked = mark_repeat(part)
    assert marked.text == REPEAT_NOTE + part.text
    check(marked)
    (entity,) = marked.entities
    assert marked.text[entity.offset : entity.offset + entity.length] == "bold"


def test_every_part_has_room_for_the_repeat_mark() -> None:
    for part in render("x" * 20_000):
        marked = mark_repeat(part)
        check(marked)
        assert marked.text.startswith(REPEAT_NOTE)
    assert units(mark_repeat(OutboundPart("x" * (MAX_UNITS - 2))).text) == MAX_UNITS


def test_very_long_answer_is_its_beginning_and_a_complete_file() -> None:
    markdown = "# Title\n\n" + "some **bold** words \ud83d\n\n" * 1500
    parts = render(markdown)
    assert len(parts) > 4
    *first, rest = as_file_if_long(markdown, parts, 4)
    assert tuple(first) == parts[:3]
    assert as_file_if_long(markdown, parts, 1)[:-1] == parts[:1]
    (whole,) = rest.files
    assert whole.text == markdown.replace("\ud83d", "\ufffd")
    assert whole.text is not None
    assert whole.size_bytes == len(whole.text.encode())
    assert whole.name == "answer.md"
    assert str(len(parts) - 3) in rest.text
    assert as_file_if_long(markdown, parts, 0) == parts
    assert as_file_if_long(markdown, parts, len(parts)) == parts


def test_headings_of_a_very_long_answer_follow_its_file() -> None:
    fence = "```sh\n# no heading\n```"
    section = "## Part {n}: `x` ##\n\n" + "word " * 900 + f"\n\n{fence}\n\n"
    markdown = "# A **long** tale\n\n" + "".join(section.format(n=n) for n in range(9))
    *_, rest = as_file_if_long(markdown, render(markdown), 4)
    result, *headings = rest.text.splitlines()
    assert "This file has the full text." in result
    assert headings == ["• A long tale", *(f"• Part {n}: x" for n in range(9))]
    many = "".join(f"# {'🐱' * 90}\n\n{'word ' * 100}\n\n" for _ in range(60))
    *_, rest = as_file_if_long(many, render(many), 4)
    assert rest.text.endswith("\n…")
    # This leaves room for the notes that a resend and a closed topic may put in front.
    assert units(rest.text) <= 900
    plain = "word " * 9_000
    assert "•" not in as_file_if_long(plain, render(plain), 4)[-1].text


def test_promise_is_shown_in_words() -> None:
    (part,) = render("I wait. <promise>BLOCKED:no key</promise>")
    assert part.text == "I wait. ■ BLOCKED: no key"
    growing = render_preview("I wait. <promise>BLOCKED:no")
    assert growing is not None
    assert growing.text == "I wait."


@pytest.mark.parametrize("word", ["z", "a long text, so that the table is no grid"])
def test_code_in_a_cell_without_a_column_is_code(word: str) -> None:
    """As plain text, Telegram would turn an address in the code into a link."""
    address = "https://evil.example/S"
    (part,) = render(f"| a | b |\n|---|---|\n| x | y | {word} `{address}` | c |\n")
    at = part.text.index(address)
    code = [entity for entity in part.entities if entity.type in ("code", "pre")]
    assert any(entity.offset <= at < entity.offset + entity.length for entity in code)
    assert "`" not in part.text
