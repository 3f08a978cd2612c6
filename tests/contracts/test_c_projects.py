"""clangd in projects that have only build files: it finds uses in every file."""

import asyncio
import json
import shutil
import sys
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agent.code.lsp.compilation_database import CompilationDatabase, commands_of_make
from agent.code.lsp.known_servers import KNOWN_SERVERS
from agent.code.services import CodeServices
from agent.security.shell.grammar import command_parser
from agent.settings import LspServerSettings, LspSettings, ToolSettings
from agent.tools.built_in import RegistryDefaults
from tests.contracts.code_servers import (
    PROJECTS,
    CodeCalls,
    all_ended,
    code_calls,
    known_server,
    only,
)

# The header is found only with the flags of the build.
FILES = {
    "include/items.h": "#pragma once\nint item_price(int cents);\n",
    "src/items.c": '#include "items.h"\nint item_price(int cents) { return cents; }\n',
    "src/basket.c": '#include "items.h"\nint total(void) { return item_price(1); }\n',
    "src/bill.c": '#include "items.h"\nint bill(void) { return item_price(2); }\n',
    "src/deep/tax.c": '#include "items.h"\nint tax(void) { return item_price(3); }\n',
    # The build compiles neither of these.
    "tests/check.c": '#include "../include/items.h"\nint check(void) { return item_price(4); }\n',
    "tests/more.c": '#include "../include/items.h"\nint more(void) { return item_price(5); }\n',
}
MAKEFILE = """\
CFLAGS = -Iinclude
OBJECTS = src/items.o src/basket.o src/bill.o
all: $(OBJECTS)
\t$(MAKE) -C src/deep
"""
BUILDS = {
    "make": {"Makefile": MAKEFILE, "src/deep/Makefile": "all: tax.o\nCFLAGS = -I../../include\n"},
    "cmake": {
        "CMakeLists.txt": """\
cmake_minimum_required(VERSION 3.10)
project(shop C)
add_library(shop src/items.c src/basket.c src/bill.c src/deep/tax.c)
target_include_directories(shop PUBLIC include)
"""
    },
    "meson": {
        "meson.build": """\
project('shop', 'c')
static_library('shop', 'src/items.c', 'src/basket.c', 'src/bill.c', 'src/deep/tax.c',
               include_directories: 'include')
"""
    },
}


def write_files(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (folder := tmp_path.resolve() / "project").mkdir()
    write_files(folder, FILES)
    return folder


@pytest.fixture
async def calls(request: pytest.FixtureRequest, folder: Path) -> AsyncIterator[CodeCalls]:
    """Yield calls in a project with the build files of the parameter."""
    program = request.param
    for needed in (program, "cc"):
        if shutil.which(needed) is None:
            pytest.skip(f"{needed} is not installed")
    write_files(folder, BUILDS[program])
    async with code_calls(folder, only("clangd")) as calls:
        yield calls
    await all_ended(folder)


def names_of(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


@pytest.mark.counterpart("clangd")
@pytest.mark.parametrize("calls", BUILDS, indirect=True)
async def test_rename_in_a_project_with_only_build_files(calls: CodeCalls, folder: Path) -> None:
    before = names_of(folder)
    result = await calls.ask("rename", "include/items.h", symbol="item_price", new_name="cost")
    assert "may be incomplete" not in result.for_model
    assert {change.path for change in result.artifacts} == {str(folder / name) for name in FILES}
    for name in FILES:
        assert "item_price" not in (folder / name).read_text()
    assert names_of(folder) == before


@pytest.mark.counterpart("clangd")
@pytest.mark.parametrize("calls", BUILDS, indirect=True)
async def test_files_are_read_with_the_flags_of_the_build(calls: CodeCalls) -> None:
    lines = await calls.lines("diagnostics", "src/deep/tax.c")
    assert lines[0].startswith("Nothing is wrong")


@pytest.mark.counterpart("clangd")
async def test_possible_gaps_are_listed_without_build_files(folder: Path) -> None:
    async with code_calls(folder, only("clangd")) as calls:
        lines = await calls.lines("references", "tests/check.c", symbol="item_price")
        note = lines.index(
            "The answer may be incomplete: the project has no compilation database "
            "(compile_commands.json). Lines with the name in files that it does not contain:"
        )
        # clangd reads files that contain the name, but finds the header only for this one.
        assert any(line.startswith("tests/more.c:2: ") for line in lines[:note])
        assert any(line.startswith("src/deep/tax.c:2: ") for line in lines[note:])
        assert not any(line.startswith("tests/") for line in lines[note:])
    await all_ended(folder)


@pytest.mark.counterpart("clangd")
async def test_build_files_cannot_change_the_project(folder: Path) -> None:
    known_server("clangd")
    marks = (folder / "shell", folder / "line", folder.parent / "outside")
    text = f"X := $(shell touch {marks[0]} {marks[2]})\nall: src/items.o\n\t+touch {marks[1]}\n"
    write_files(folder, {"Makefile": text})
    async with code_calls(folder, only("clangd")) as calls:
        lines = await calls.lines("references", "src/items.c", symbol="item_price")
        # The dry run gave a database.
        assert not any("no compilation database" in line for line in lines)
    assert not any(mark.exists() for mark in marks)


@pytest.mark.counterpart("clangd")
async def test_build_files_run_only_in_a_sandbox(folder: Path) -> None:
    """Without one, a trusted project still decides nothing that runs."""
    write_files(folder, {"Makefile": f"X := $(shell touch {folder}/mark)\nall:\n"})
    settings = only("clangd")
    tools = ToolSettings(sandbox=None)
    services = CodeServices(settings, tools, defaults := RegistryDefaults(), (folder,))
    calls = CodeCalls(services, defaults, folder)
    try:
        lines = await calls.lines("references", "src/items.c", symbol="item_price")
        assert any("no compilation database" in line for line in lines)
    finally:
        await services.aclose()
    assert not (folder / "mark").exists()


async def test_failed_build_system_is_asked_once(folder: Path) -> None:
    write_files(folder, {"CMakeLists.txt": "", "Makefile": ""})
    scripts = []

    async def run(script: str, text: bytes) -> bytes:
        scripts.append(script)
        return b"not JSON, and no compiler call"

    database = CompilationDatabase(folder, run)
    assert await database.prepare() is None
    assert len(scripts) == 2
    assert await database.prepare() is None
    assert len(scripts) == 2
    assert database.compiled_files(folder / "src/items.c") is None


async def test_own_database_of_the_project_is_used(folder: Path) -> None:
    write_files(folder, {"Makefile": "all:\n"})
    entry = {"directory": str(folder), "file": "src/items.c", "command": "cc src/items.c"}
    write_files(folder, {"build/compile_commands.json": json.dumps([entry, "no entry", {}])})

    async def run(script: str, text: bytes) -> bytes:
        raise AssertionError("the project has a database")

    database = CompilationDatabase(folder, run)
    assert await database.prepare() is None
    assert database.compiled_files(folder / "src/bill.c") == {folder / "src/items.c"}


def test_compiler_calls_are_found_in_a_dry_run() -> None:
    output = b"""\
make: Entering directory '/p'
echo 'cc -c no.c'
printf '%s' x; ccache x86_64-linux-gnu-gcc-12 -DA='"b c"' -c -o one.o one.c
if g++ -c two.cpp \\
   -MF two.d; then mv a b; else exit 1; fi
gcc -c -o three.o `test -f 'three.c' || echo './'`three.c
make[1]: Entering directory '/p/sub dir'
/bin/sh ../libtool --tag=CC --mode=compile clang -c four.c
make[1]: Leaving directory '/p/sub dir'
cd lib && cc -c five.c
cc -o program one.o
cc $(broken
make: Leaving directory '/p'
"""
    entries = list(commands_of_make(output, Path("/p"), threading.Event()))
    assert [(entry.directory, entry.file) for entry in entries] == [
        ("/p", "one.c"),
        ("/p", "two.cpp"),
        ("/p", "three.c"),
        ("/p/sub dir", "four.c"),
        ("/p/lib", "five.c"),
    ]
    assert entries[0].arguments[:2] == ("x86_64-linux-gnu-gcc-12", '-DA="b c"')


def test_limited_number_of_lines_is_parsed() -> None:
    output = b"echo x.c\n" * 3 + b"cc -c y.c\ncc -c z.c\n"
    entries = list(commands_of_make(output, Path("/p"), threading.Event(), max_parsed_lines=4))
    assert [entry.file for entry in entries] == ["y.c"]


def test_cancelled_reading_of_build_output_ends_at_the_next_line() -> None:
    is_cancelled = threading.Event()
    entries = commands_of_make(b"cc -c x.c\n" * 3, Path("/p"), is_cancelled)
    assert next(entries).file == "x.c"
    is_cancelled.set()
    assert list(entries) == []


async def test_cancelled_generation_leaves_no_thread_at_work(folder: Path) -> None:
    """Closing the executor waits for the thread, which needs minutes for all lines."""
    write_files(folder, {"Makefile": "all:\n"})
    begins, lines = asyncio.Event(), 1_000_000

    async def run(script: str, text: bytes) -> bytes:
        begins.set()
        return b"echo x.c $(\n" * lines

    database = CompilationDatabase(folder, run, max_parsed_lines=lines)
    task = asyncio.create_task(database.prepare())
    await begins.wait()
    task.cancel()
    await asyncio.wait({task})
    await asyncio.get_running_loop().shutdown_default_executor()


def test_build_output_is_not_parsed_by_the_parser_of_commands() -> None:
    """The commands of a person wait for no build."""
    command_parser().close()
    entries = list(commands_of_make(b"cc -c x.c\n", Path("/p"), threading.Event()))
    assert [entry.file for entry in entries] == ["x.c"]
    assert command_parser().pid is None


async def test_deeply_nested_database_is_a_failure_of_the_build_system(folder: Path) -> None:
    write_files(folder, {"CMakeLists.txt": ""})

    async def run(script: str, text: bytes) -> bytes:
        return b"[" * 1_000_000

    assert await CompilationDatabase(folder, run).prepare() is None


@pytest.mark.slow
async def test_unfinished_index_is_reported(folder: Path) -> None:
    """More files have the name than Kore opens, and the server never says that it has finished."""
    entries = []
    for number in range(30):
        (folder / f"{number}.txt").write_text("def apple\n")
        entries.append({"directory": str(folder), "file": f"{number}.txt", "command": "cc"})
    (folder / "compile_commands.json").write_text(json.dumps(entries))
    script = str(PROJECTS.parents[1] / "fakes" / "lsp_server.py")
    server = LspServerSettings("clangd", (sys.executable, script, "name=clangd"), (".txt",))
    without = frozenset(item.name for item in KNOWN_SERVERS) - {"clangd"}
    async with code_calls(folder, LspSettings(servers=(server,), without=without)) as calls:
        lines = await calls.lines("references", "0.txt", symbol="apple")
        assert lines[0] == "0.txt:1: def apple"
        assert "the index is not finished" in lines[1]
        assert lines[2].startswith("1.txt:1: def apple")
        assert lines[-1] == "… (9 more)"
