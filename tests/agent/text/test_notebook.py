"""Cells of notebooks as text, and their way back into the JSON."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.text.notebook import Notebook, open_cells, with_text
from agent.text.text_document import Document, TextFormat
from tests.agent.notebooks import CELLS, notebook_json


@pytest.mark.parametrize(
    "text",
    [
        "{}",
        "[1, 2]",
        "not json",
        '{"cells": [',
        '{"cells": [{}], "nbformat": 4, "nbformat_minor": 5}',
        '{"cells": [], "nbformat": 3, "nbformat_minor": 0}',
        '{"cells": [], "cells": [], "nbformat": 4, "nbformat_minor": 5}',
        '{"cells": [{"cell_type": "code", "source": "\\ud800"}], "nbformat": 4,'
        ' "nbformat_minor": 0}',
        "[" * 100_000,
    ],
)
def test_other_json_stays_text(text: str) -> None:
    document = Document(text, TextFormat())
    assert open_cells(document, Path("a.ipynb")) is document


SOURCES = st.text(st.sampled_from('ab\n\r\t\\"ü[]😀') | st.characters(codec="utf-8"), max_size=12)
LINES = st.sampled_from(["[cell 1: code]", "\\[new cell: raw]", "x = 1", "", "[cell 2: code] "])
CODE = SOURCES | st.lists(LINES, max_size=4).map("\n".join)
STYLES = st.sampled_from(
    [
        {"indent": 1},
        {"indent": "\t"},
        {"indent": 4, "ensure_ascii": True},
        {"indent": None},
        {"indent": None, "separators": (",", ":")},
    ]
)


@given(st.lists(CODE, min_size=1, max_size=4), STYLES, st.booleans(), st.data())
def test_edit_of_a_cell_keeps_all_other_bytes(
    sources: list[str], style: dict[str, Any], is_list: bool, data: st.DataObject
) -> None:
    cells = [
        {**CELLS[1], "id": f"c{n}", "source": source.splitlines(True) if is_list else source}
        for n, source in enumerate(sources)
    ]
    text = notebook_json(cells, **style)
    opened = open_cells(Document(text, TextFormat()), Path("a.ipynb"))
    assert isinstance(opened, Notebook)
    assert opened.encode() == text.encode()
    at = data.draw(st.integers(0, len(cells) - 1))
    new_source = "changed = 'é'\nsecond"
    parts = opened.text.split("\n")
    first = [0, *opened.last_lines()][at]
    parts[first : opened.last_lines()[at]] = [f"[cell {at + 1}: code]", *new_source.split("\n")]
    written = with_text(opened, "\n".join(parts)).encode().decode()
    lines = new_source.splitlines(keepends=True) if is_list else new_source
    assert json.loads(written)["cells"][at]["source"] == lines
    old, new = opened.cells[at], open_cells(Document(written, TextFormat()), Path("a.ipynb"))
    assert isinstance(new, Notebook)
    assert written[: new.cells[at].members["source"].start] == text[: old.members["source"].start]
    assert written[new.cells[at].members["source"].end :] == text[old.members["source"].end :]
