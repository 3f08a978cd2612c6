"""Rich messages built from rendered answers."""

import json
from typing import Any

from gateway.channels.telegram.outbound.render import render
from gateway.channels.telegram.outbound.rich_message import rich_message
from gateway.core.messages import Entity, OutboundPart
from tests.fakes.bot_rich import check_rich, rich_text


def blocks(markdown: str) -> list[dict[str, Any]]:
    """Return the blocks of an answer in one message."""
    (part,) = render(markdown)
    message = rich_message(part)
    assert message is not None
    return check_rich(message)


def table(rows: int, columns: int = 2, width: int = 1) -> str:
    head = "|".join(f"c{n}" for n in range(columns))
    lines = [f"|{head}|", f"|{'--|' * columns}"]
    lines += ["|" + f"{n}x{'y' * width}|" * columns for n in range(rows)]
    return "\n".join(lines)


def test_blocks_around_a_table_keep_their_order_and_format() -> None:
    shown = blocks(
        "## Plan\n\nSee [docs](https://example.org/a).\nThen `ls`.\n\n"
        "> quoted **words**\n\n```py\nprint(1)\n```\n\n" + table(1)
    )
    link = {"type": "url", "text": "docs", "url": "https://example.org/a"}
    assert shown[:4] == [
        {"type": "heading", "size": 2, "text": "Plan"},
        {
            "type": "paragraph",
            "text": ["See ", link, ".\nThen ", {"type": "code", "text": "ls"}, "."],
        },
        {
            "type": "blockquote",
            "blocks": [
                {"type": "paragraph", "text": ["quoted ", {"type": "bold", "text": "words"}]}
            ],
        },
        {"type": "pre", "text": "print(1)", "language": "py"},
    ]
    assert shown[4]["type"] == "table"
    assert len(shown) == 5


def test_formula_without_a_unicode_form_is_drawn() -> None:
    text, block = blocks("So $\\begin{matrix}a\\end{matrix}$ and $x^2$:\n\n$$\\unknown{y}$$")
    formula = {"type": "mathematical_expression", "expression": "\\begin{matrix}a\\end{matrix}"}
    square = {"type": "mathematical_expression", "expression": "x^2"}
    assert text["text"] == ["So ", formula, " and ", square, ":"]
    assert block == {"type": "mathematical_expression", "expression": "\\unknown{y}"}


def test_formula_with_an_address_stays_code() -> None:
    (part,) = render("$$\\href{https://example.org/?q=secret}{x}$$")
    assert rich_message(part) is None


def test_every_row_of_a_split_table_is_in_one_message() -> None:
    markdown = table(400, width=20)
    parts = render(markdown)
    rows = []
    for part in parts:
        message = rich_message(part)
        assert message is not None
        for block in check_rich(message):
            assert block["cells"][0][0]["text"] == "c0"
            rows += [row[0]["text"] for row in block["cells"][1:]]
    assert len(parts) > 1
    assert rows == [f"{n}x{'y' * 20}" for n in range(400)]


def test_cut_row_is_text() -> None:
    long = f"| a | b |\n|--|--|\n| x | {'word ' * 2000}|"
    first, *more = render(long)
    message = rich_message(first)
    assert message is not None
    head, row = check_rich(message)
    assert rich_text(head) == "a | b"
    assert row["text"].startswith("• x — word word")
    assert all(rich_message(part) is None for part in more)


def test_table_beyond_the_limits_is_text() -> None:
    (wide,) = render(table(1, columns=21))
    assert rich_message(wide) is None
    (nested,) = render("- item\n\n  | a | b |\n  |--|--|\n  | x | y |")
    assert rich_message(nested) is None
    many = "a\n\n" * 490 + table(20)
    assert all(rich_message(part) is None for part in render(many))


def test_invisible_characters_of_cells_are_escaped() -> None:
    (shown,) = blocks("| a | b |\n|--|--|\n| x\u200by | &#x200b; |")
    assert rich_text(shown) == "a | b\nx\\u{200b}y | \\u{200b}"


def test_stored_part_is_the_same_rich_message() -> None:
    (part,) = render(f"# T\n\n{table(3)}\n\n$\\unknown{{x}}$")
    stored = [Entity(**json.loads(json.dumps(vars_of(entity)))) for entity in part.entities]
    assert tuple(stored) == part.entities
    assert rich_message(OutboundPart(part.text, tuple(stored))) == rich_message(part)


def vars_of(entity: Entity) -> dict[str, Any]:
    return {name: getattr(entity, name) for name in ("type", "offset", "length", "extra")}
