"""Names changed by an edit that other files may use."""

from pathlib import Path
from typing import Any

import pytest

from agent.code.lsp.dependents import changed_lines, changed_names
from agent.code.lsp.protocol.positions import split_lines
from agent.tools.files.draft_check import Draft

TEXT = "class A:\n    def one(\n        self,\n    ):\n        return 1\n\n    x = 2\n\n\ny = 3\n"


def symbol(name: str, kind: int, span: tuple[int, int], *children: Any) -> dict[str, Any]:
    start, end = ({"line": line, "character": 0} for line in span)
    spot = {"start": start, "end": end}
    inner = list(children)
    return {"name": name, "kind": kind, "range": spot, "selectionRange": spot, "children": inner}


OUTLINE = [
    symbol(
        "A", 5, (0, 6), symbol("one", 6, (1, 4), symbol("r", 13, (4, 4))), symbol("x", 8, (6, 6))
    ),
    symbol("y", 13, (9, 9)),
    "no symbol",
    {"name": "flat", "kind": 12, "location": {}},
]


@pytest.mark.parametrize(
    ("old", "new", "lines"),
    [
        ("        self,\n", "        self,\n        more,\n", [1]),
        ("def one(", "def two(", [1]),
        ("return 1", "return 2", []),
        ("x = 2", "x = 4", [6]),
        ("class A:", "class B:", [0]),
        ("y = 3\n", "", [9]),
        ("y = 3\n", "y = 3\nz = 4\n", []),
    ],
)
def test_visible_names_of_an_edit_are_found(old: str, new: str, lines: list[int]) -> None:
    changed, _ = changed_lines(Draft(Path("a.txt"), TEXT, TEXT.replace(old, new)))
    names = changed_names(OUTLINE, changed, split_lines(TEXT))
    assert [position["line"] for position in names] == lines


@pytest.mark.parametrize("mark", ["\x0c", "\x0b", "\x1c", "\x85", "\u2028", "\u2029"])
def test_other_line_separators_do_not_shift_changed_lines(mark: str) -> None:
    text = f"a = '{mark}'\r\nb = 2\rc = 3\n"
    draft = Draft(Path("a.txt"), text, text.replace("c = 3", "c = 4"))
    assert changed_lines(draft) == (range(2, 3), range(2, 3))


def test_changed_name_after_a_form_feed_is_found() -> None:
    text = TEXT.replace("class A:", "class A:  # \x0c")
    changed, _ = changed_lines(Draft(Path("a.txt"), text, text.replace("x = 2", "x = 4")))
    names = changed_names(OUTLINE, changed, split_lines(text))
    assert [position["line"] for position in names] == [6]
