"""Finding the name that a model asks about, in code, comments and several definitions."""

import re
from pathlib import Path
from typing import Any

import pytest

from agent.code.lsp.protocol.positions import Position, TextLines
from agent.code.lsp.symbol_search import find_symbol, list_lines
from agent.errors import ToolError
from tests.contracts.code_servers import code_calls, stand_in

TEXT = """\
# pear and apple
def apple
pear apple
def pear
"""
GO = """\
// Add adds.
func (b *Basket) Add() {}
func (c *Crate) Add() {}
func use() { b.Add() }
"""


def go_method(line: int, receiver: str, start: int) -> dict[str, Any]:
    """Return the symbol of a method as gopls writes it."""
    name_range = {"start": {"line": line, "character": start}}
    return {"name": f"({receiver}).Add", "kind": 6, "selectionRange": name_range}


GO_SYMBOLS = [go_method(1, "*Basket", 17), go_method(2, "*Crate", 16)]
FLAT_SYMBOLS = [
    {"name": "Add", "containerName": receiver, "location": {"range": {"start": at}}}
    for receiver, at in (
        ("Basket", {"line": 1, "character": 0}),
        ("Crate", {"line": 2, "character": 0}),
    )
]


def positions(text: str, symbols: Any = None, operation: str = "hover", **args: Any) -> list[Any]:
    search = find_symbol(TextLines(text), args, operation, symbols, "utf-16")
    return [(position.line, position.character) for position in search.positions]


@pytest.mark.parametrize("symbols", [GO_SYMBOLS, FLAT_SYMBOLS])
def test_definitions_come_before_other_matches(symbols: list[Any]) -> None:
    assert positions(GO, symbols, symbol="Add") == [(1, 17), (2, 16), (0, 3), (3, 15)]


@pytest.mark.parametrize("symbols", [GO_SYMBOLS, FLAT_SYMBOLS])
@pytest.mark.parametrize("symbol", ["Crate.Add", "(*Crate).Add", "Crate::Add", "Crate#Add()"])
def test_qualified_name_selects_its_definition(symbols: list[Any], symbol: str) -> None:
    search = find_symbol(TextLines(GO), {"symbol": symbol}, "hover", symbols, "utf-16")
    assert search.positions[0] == Position(2, 16)
    assert search.definitions == (2,)


def test_unknown_scope_selects_all_definitions() -> None:
    assert positions(GO, GO_SYMBOLS, symbol="shop.Add")[:2] == [(1, 17), (2, 16)]


@pytest.mark.parametrize("symbol", ["Nope.Add", "shop.Add", "basket.Add"])
@pytest.mark.parametrize("symbols", [GO_SYMBOLS, FLAT_SYMBOLS])
def test_unknown_scope_is_reported(symbols: list[Any], symbol: str) -> None:
    search = find_symbol(TextLines(GO), {"symbol": symbol}, "hover", symbols, "utf-16")
    scope = symbol.partition(".")[0]
    assert search.describe(search.positions[0]) == (
        f"No {scope} in this file defines Add; this is about Add on line 2."
    )


def test_rename_in_an_unknown_scope_is_refused() -> None:
    sentence = r"No Nope in this file defines Add; this is about Add on line 2\. .* give the line"
    for symbols in (GO_SYMBOLS, FLAT_SYMBOLS):
        with pytest.raises(ToolError, match=sentence):
            positions(GO, symbols, "rename", symbol="Nope.Add")
    with pytest.raises(ToolError, match=r"did not list the definitions of Nope; .* give the line"):
        positions(GO, None, "rename", symbol="Nope.Add")
    assert positions(GO, None, "rename", symbol="Nope.Add", line=3) == [(2, 16)]
    assert positions(GO, GO_SYMBOLS, "rename", symbol="Crate.Add")[0] == (2, 16)


def test_completion_needs_no_definition_in_the_scope() -> None:
    search = find_symbol(TextLines(GO), {"symbol": "b.Add"}, "completion", None, "utf-16")
    assert search.warning == ""


def test_nearest_lines_come_first() -> None:
    assert positions(TEXT, line=3, symbol="pear") == [(2, 0), (3, 4), (0, 2)]


def test_rename_keeps_to_the_nearest_line() -> None:
    assert positions(TEXT, operation="rename", line=3, symbol="pear") == [(2, 0)]


def test_completion_starts_after_the_name() -> None:
    assert positions(TEXT, operation="completion", line=3, symbol="pear")[0] == (2, 4)


def test_character_needs_no_name() -> None:
    assert positions(TEXT, line=3, character=6) == [(2, 5)]


@pytest.mark.parametrize(
    "symbols", [None, {}, [None, 1], [{"name": "Add"}], [{"name": "Add", "selectionRange": 3}]]
)
def test_malformed_symbols_are_ignored(symbols: Any) -> None:
    assert positions(GO, symbols, symbol="Add")[0] == (0, 3)


def test_absent_name_is_reported_with_its_lines() -> None:
    text = "pear\n" + "\n" * 10 + "apple\n"
    with pytest.raises(ToolError, match=r"no 'pear' on line 12 or near it; it is on line 1\."):
        positions(text, line=12, symbol="pear")
    with pytest.raises(ToolError, match=r"There is no 'plum' in the file\."):
        positions(text, symbol="plum")


def test_lines_are_listed_in_order() -> None:
    assert list_lines([4]) == "line 5"
    assert list_lines([7, 2, 2, 4]) == "lines 3, 5 and 8"
    assert list_lines(range(30)).endswith("19, 20 and 10 more")


async def test_mention_in_a_comment_is_not_the_symbol(tmp_path: Path) -> None:
    (folder := tmp_path / "project").mkdir()
    (folder / "a.txt").write_text(TEXT)
    async with code_calls(folder, stand_in()) as calls:
        for operation in ("references", "hover"):
            for args in ({}, {"line": 1}):
                lines = await calls.lines(operation, "a.txt", symbol="pear", **args)
                answer = "word pear" if operation == "hover" else "a.txt:4: def pear"
                assert answer in lines, (operation, args)
        # The answer is about another line than the model named.
        assert lines[-1] == "This is about pear on line 3."
        await calls.ask("rename", "a.txt", symbol="pear", new_name="plum")
    assert (folder / "a.txt").read_text().splitlines()[2:] == ["plum apple", "def plum"]


async def test_places_without_an_answer_are_named(tmp_path: Path) -> None:
    (folder := tmp_path / "project").mkdir()
    (folder / "a.txt").write_text("# pear\n\n# a pear\n")
    async with code_calls(folder, stand_in()) as calls:
        assert await calls.lines("hover", "a.txt", symbol="pear") == [
            "Nothing was found.",
            "The language server was asked about pear on lines 1 and 3.",
        ]


async def test_unknown_scope_is_reported_and_not_renamed(tmp_path: Path) -> None:
    (folder := tmp_path / "project").mkdir()
    (folder / "a.txt").write_text(TEXT)
    note = "No Nope in this file defines pear; this is about pear on line 4."
    async with code_calls(folder, stand_in()) as calls:
        for operation in ("references", "hover"):
            lines = await calls.lines(operation, "a.txt", symbol="Nope.pear")
            assert lines[-1] == note, operation
        with pytest.raises(ToolError, match=re.escape(note)):
            await calls.ask("rename", "a.txt", symbol="Nope.pear", new_name="plum")
        assert (folder / "a.txt").read_text() == TEXT
        await calls.ask("rename", "a.txt", symbol="Nope.pear", line=4, new_name="plum")
    assert "def plum" in (folder / "a.txt").read_text()


async def test_answer_does_not_need_the_symbols_of_the_file(tmp_path: Path) -> None:
    (folder := tmp_path / "project").mkdir()
    (folder / "a.txt").write_text(TEXT)
    settings = stand_in("hang=textDocument/documentSymbol", timeout_s=4)
    async with code_calls(folder, settings) as calls:
        assert "word pear" in await calls.lines("hover", "a.txt", symbol="pear")
