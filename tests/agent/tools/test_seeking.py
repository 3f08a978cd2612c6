"""`glob` and `grep` with a common set of cases, by ripgrep and by the built-in search."""

import codecs
import json
import os
import resource
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agent.errors import ToolError
from agent.security.taint.file_marks import is_marked, mark_tainted
from agent.security.taint.taint import NOTHING, UNTRUSTED
from agent.settings import ToolSettings
from agent.text.text_document import MAX_BYTES
from agent.tools.base import CallContext
from agent.tools.files.glob import Glob
from agent.tools.files.grep import Grep
from agent.types import ToolResult

_MANY_FILES = 2_000
# Without ripgrep both entries use the built-in search.
PROGRAMS = {"ripgrep": shutil.which("rg"), "stand-in": None}


@pytest.fixture(params=PROGRAMS)
def program(request: pytest.FixtureRequest) -> str | None:
    return PROGRAMS[request.param]


@pytest.fixture
def tree(workspace: Path) -> Path:
    """Return a workspace with files of every kind."""
    files: dict[str, str | bytes] = {
        "a.txt": "one needle\ntwo\nthree Needle\n",
        "crlf.txt": b"x\r\nneedle end\r\ny\r\n",
        "mark.txt": codecs.BOM_UTF8 + b"needle first\n",
        "wide.txt": codecs.BOM_UTF16_LE + "wide needle ä\n".encode("utf-16-le"),
        "latin.txt": b"caf\xe9 needle\nneedle\n",
        "binary.bin": b"needle\0\n",
        "late.bin": b"needle\n" + b"x\n" * 40_000 + b"\0",
        "empty.txt": "",
        "no end.txt": "needle at the end",
        "Zürich.txt": "needle über\n",
        "build/out.txt": "needle\n",
        "logs/keep.log": "needle kept\n",
        "logs/drop.log": "needle dropped\n",
        "src/deep/b.py": "def needle():\n    pass\n",
        "src/deep/gen/c.py": "needle = 1\n",
        "src/.gitignore": "/deep/gen/\n",
        ".gitignore": "# left out\nbuild/\n*.log\n!keep.log\n",
        ".hidden/h.txt": "needle hidden\n",
        ".env": "needle = secret\n",
        ".git/config": "needle of git\n",
        ".kore/spill/x.txt": "needle of an earlier output\n",
    }
    for name, content in files.items():
        path = workspace / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    (workspace / "link.txt").symlink_to("a.txt")
    (workspace / "outside").symlink_to("/etc")
    return workspace


async def grep(call: CallContext, program: str | None, **args: Any) -> ToolResult:
    return await Grep(ToolSettings(), program).run(args, call)


async def glob(call: CallContext, program: str | None, **args: Any) -> ToolResult:
    return await Glob(ToolSettings(), program).run(args, call)


def lines_by_file(result: ToolResult) -> dict[str, list[str]]:
    """Return the found lines by file."""
    blocks = result.for_model.split("\n\n")
    return {lines[0]: lines[1:] for lines in (block.split("\n") for block in blocks)}


EVERYWHERE = {
    ".hidden/h.txt": ["1:needle hidden"],
    "Zürich.txt": ["1:needle über"],
    "a.txt": ["1:one needle"],
    "crlf.txt": ["2:needle end"],
    "latin.txt": ["1:caf\ufffd needle", "2:needle"],
    "logs/keep.log": ["1:needle kept"],
    "mark.txt": ["1:needle first"],
    "no end.txt": ["1:needle at the end"],
    "src/deep/b.py": ["1:def needle():"],
    "wide.txt": ["1:wide needle ä"],
}


async def test_visible_matches_are_sorted_by_path(
    call: CallContext, tree: Path, program: str | None
) -> None:
    result = await grep(call, program, pattern="needle")
    assert lines_by_file(result) == EVERYWHERE
    assert list(lines_by_file(result)) == sorted(EVERYWHERE, key=os.fsencode)
    assert result.for_user == "11 lines in 10 files"


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        ({"pattern": "NEEDLE", "path": "a.txt", "ignore_case": True},
         {"a.txt": ["1:one needle", "3:three Needle"]}),
        ({"pattern": "^needle", "glob": "*.txt"},
         {name: ["1:" + text] for name, text in {
             ".hidden/h.txt": "needle hidden", "Zürich.txt": "needle über",
             "mark.txt": "needle first", "no end.txt": "needle at the end"}.items()}
         | {"crlf.txt": ["2:needle end"], "latin.txt": ["2:needle"]}),
        ({"pattern": "needle end$"}, {"crlf.txt": ["2:needle end"]}),
        ({"pattern": "needle", "path": "src"}, {"src/deep/b.py": ["1:def needle():"]}),
        ({"pattern": "needle", "path": "src/deep/gen"}, {"src/deep/gen/c.py": ["1:needle = 1"]}),
        ({"pattern": "needle", "path": "build"}, {"build/out.txt": ["1:needle"]}),
        ({"pattern": "needle", "path": "logs"}, {"logs/keep.log": ["1:needle kept"]}),
        ({"pattern": "needle", "path": "logs/drop.log"}, {"logs/drop.log": ["1:needle dropped"]}),
        ({"pattern": "needle", "path": ".kore/spill"},
         {".kore/spill/x.txt": ["1:needle of an earlier output"]}),
        ({"pattern": "needle", "glob": "src/**/*.{py,js}"}, {"src/deep/b.py": ["1:def needle():"]}),
        ({"pattern": "two", "context": 1},
         {"a.txt": ["1-one needle", "2:two", "3-three Needle"]}),
        ({"pattern": r"needle\(\)"}, {"src/deep/b.py": ["1:def needle():"]}),
        ({"pattern": r"\bÜBER\b", "ignore_case": True}, {"Zürich.txt": ["1:needle über"]}),
        ({"pattern": "--needle|hidden$"}, {".hidden/h.txt": ["1:needle hidden"]}),
        ({"pattern": "^$", "path": "a.txt"}, {}),
        ({"pattern": "^", "path": "empty.txt"}, {}),
        ({"pattern": "needle", "path": "binary.bin"}, {}),
        ({"pattern": "needle", "glob": "*.md"}, {}),
    ],
)  # fmt: skip
async def test_grep_results_are_the_same_with_both_programs(
    call: CallContext,
    tree: Path,
    program: str | None,
    args: dict[str, Any],
    expected: dict[str, list[str]],
) -> None:
    result = await grep(call, program, **args)
    if expected:
        assert lines_by_file(result) == expected
    else:
        assert result.for_model.startswith("Nothing matches")


async def test_context_groups_are_separated(
    call: CallContext, workspace: Path, program: str | None
) -> None:
    (workspace / "n.txt").write_text("".join(f"{n}\n" for n in range(1, 30)))
    result = await grep(call, program, pattern="^(5|6|20)$", context=2)
    assert lines_by_file(result)["n.txt"] == [
        "3-3", "4-4", "5:5", "6:6", "7-7", "8-8", "--", "18-18", "19-19", "20:20", "21-21", "22-22",
    ]  # fmt: skip


async def test_omitted_matches_are_announced(
    call: CallContext, workspace: Path, program: str | None
) -> None:
    for name in ("a.txt", "b.txt"):
        (workspace / name).write_text("x\n" * 3)
    result = await grep(call, program, pattern="x", head_limit=4)
    assert lines_by_file(result)["b.txt"][:2] == [
        "1:x",
        "… (there are more; narrow the pattern, path or glob)",
    ]
    assert result.for_user == "4 lines in 2 files"
    whole = await grep(call, program, pattern="x", head_limit=6)
    assert "more" not in whole.for_model


async def test_result_respects_the_output_limit(
    call: CallContext, workspace: Path, program: str | None
) -> None:
    (workspace / "long.txt").write_text(("x" * 5_000 + "\n") * 90)
    result = await grep(call, program, pattern="x")
    assert len(result.for_model.encode()) < 31_000
    assert "(line cut)" in result.for_model
    assert "there are more" in result.for_model


@pytest.mark.parametrize("pattern", ["$", "b$", r"\Aab"])
async def test_line_with_two_carriage_returns_does_not_end_the_search(
    call: CallContext, workspace: Path, program: str | None, pattern: str
) -> None:
    """ripgrep 13 stops at such a line."""
    (workspace / "odd.txt").write_bytes(b"ab\r\r\n")
    (workspace / "other.txt").write_bytes(b"ab\r\nab")
    assert lines_by_file(await grep(call, program, pattern=pattern))["other.txt"] == [
        "1:ab",
        "2:ab",
    ]


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (r"caf.", set()),
        (r"caf\W", set()),
        (r"^caf", {"1:caf\ufffd needle"}),
        (r"[^a-z] needle", set()),
    ],
)
async def test_invalid_utf8_matches_nothing(
    call: CallContext, tree: Path, program: str | None, said: str, expected: set[str]
) -> None:
    result = await grep(call, program, pattern=said, path="latin.txt")
    assert {line for lines in lines_by_file(result).values() for line in lines} == expected


@pytest.mark.parametrize(
    "pattern", ["(a", "a(?=b)", "(?<!a)b", r"(a)\1", "[z-a]", "a\nb", r"a\nb", "", "x" * 10_001]
)
async def test_unsearchable_pattern_is_explained(
    call: CallContext, tree: Path, program: str | None, pattern: str
) -> None:
    with pytest.raises(ToolError, match="pattern"):
        await grep(call, program, pattern=pattern)


async def test_pattern_is_never_an_option_or_a_command(
    call: CallContext, tree: Path, program: str | None
) -> None:
    (tree / "odd.txt").write_text("--files $(touch hit) `id`\n")
    result = await grep(call, program, pattern=r"--files \$\(touch hit\)")
    assert list(lines_by_file(result)) == ["odd.txt"]
    assert not (tree / "hit").exists()


async def test_name_like_an_option_is_a_name(
    call: CallContext, tree: Path, program: str | None
) -> None:
    (tree / "-v").write_text("needle in an odd file\n")
    result = await grep(call, program, pattern="odd", path="-v")
    assert lines_by_file(result) == {"-v": ["1:needle in an odd file"]}


async def test_personal_settings_are_not_read(
    call: CallContext, tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "ripgreprc"
    config.write_text("--invert-match\n")
    monkeypatch.setenv("RIPGREP_CONFIG_PATH", str(config))
    result = await grep(call, PROGRAMS["ripgrep"], pattern="two")
    assert lines_by_file(result) == {"a.txt": ["2:two"]}


async def test_search_program_in_the_workspace_is_not_run(
    call: CallContext, tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = tree / "rg"
    fake.write_text(f"#!/bin/sh\ntouch {tree}/hit\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", str(tree))
    result = await grep(call, "rg", pattern="two")
    assert lines_by_file(result) == {"a.txt": ["2:two"]}
    assert not (tree / "hit").exists()


async def test_endless_search_is_ended(call: CallContext, workspace: Path) -> None:
    (workspace / "long.txt").write_text("a" * 40 + "!\n")
    # The timeout expires before the program has started.
    tool = Grep(ToolSettings(), None, timeout_s=0.001)
    result = await tool.run({"pattern": "a"}, call)
    assert "stopped after 0.001 s" in result.for_model


async def test_hostile_gitignore_does_not_delay_the_search(
    call: CallContext, workspace: Path, program: str | None
) -> None:
    (workspace / ".gitignore").write_text("*a" * 60 + "\n" + "**/a/" * 60 + "x\n")
    (workspace / ("a" * 200 + "b")).write_text("needle\n")
    deep = workspace.joinpath(*"a" * 100)
    deep.mkdir(parents=True)
    (deep / "f.txt").write_text("needle\n")
    result = await grep(call, program, pattern="needle")
    assert result.for_user == "2 lines in 2 files"


@pytest.mark.parametrize("path", [".gitignore", "src/deep/.gitignore", ".rgignore", ".ignore"])
async def test_pipe_instead_of_ignore_rules_does_not_block(
    path: str, call: CallContext, tree: Path, program: str | None
) -> None:
    (tree / path).unlink(missing_ok=True)
    os.mkfifo(tree / path)
    tool_result = await grep(call, program, pattern="def needle")
    assert "src/deep/b.py" in tool_result.for_model
    assert "stopped" not in tool_result.for_model
    tool_result = await Glob(ToolSettings(), program).run({"pattern": "**/*.py"}, call)
    assert "src/deep/b.py" in tool_result.for_model
    assert "stopped" not in tool_result.for_model


@pytest.mark.parametrize("rules", ["*.py\n*.txt\n", "*\n"])
async def test_ignore_files_of_search_programs_are_not_used(
    rules: str, call: CallContext, tree: Path, program: str | None
) -> None:
    for path in (".rgignore", ".ignore", "src/.rgignore", "src/deep/.ignore"):
        (tree / path).write_text(rules)
    assert lines_by_file(await grep(call, program, pattern="needle")) == EVERYWHERE
    names = (await glob(call, program, pattern="**/*.py")).for_model
    assert "src/deep/b.py" in names.split("\n")


async def test_files_of_other_people_are_not_shown(
    guest: CallContext, tree: Path, program: str | None
) -> None:
    for name in (
        "USER.md",
        "memory/MEMORY.md",
        "memory/telegram/7/MEMORY.md",
        "memory/telegram/8/MEMORY.md",
    ):
        path = tree / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("private needle\n")
    result = await grep(guest, program, pattern="private")
    assert list(lines_by_file(result)) == ["memory/telegram/7/MEMORY.md"]
    names = (await glob(guest, program, pattern="*.md")).for_model
    assert names == "memory/telegram/7/MEMORY.md"
    with pytest.raises(ToolError, match="someone else"):
        await grep(guest, program, pattern="private", path="USER.md")
    assert (await glob(guest, program, pattern=".kore/**")).for_model.startswith("No file")


async def test_role_scope_applies_to_every_file(
    call: CallContext, tree: Path, program: str | None
) -> None:
    scoped = replace(call, paths=(("src/**", "*.txt"), ("src/**", "a.*")))
    result = await grep(scoped, program, pattern="needle")
    assert list(lines_by_file(result)) == ["a.txt", "src/deep/b.py"]
    names = (await glob(scoped, program, pattern="**/*")).for_model.split("\n")
    assert sorted(names) == ["a.txt", "src/.gitignore", "src/deep/b.py"]


async def test_files_of_kore_are_not_shown(
    call: CallContext, tree: Path, program: str | None
) -> None:
    closed = ToolSettings(off_limits=(tree / "src",))
    result = await Grep(closed, program).run({"pattern": "needle", "glob": "*.py"}, call)
    assert result.for_model.startswith("Nothing matches")


async def test_marked_file_taints_the_result(
    call: CallContext, tree: Path, program: str | None
) -> None:
    mark_tainted(tree / "a.txt", tree)
    if not is_marked(tree / "a.txt"):
        pytest.skip("this file system keeps no marks")
    assert (await grep(call, program, pattern="two")).taint == UNTRUSTED
    assert (await grep(call, program, pattern="kept")).taint == NOTHING


@pytest.mark.parametrize("name", PROGRAMS)
async def test_untrusted_folder_name_taints_the_result(
    call: CallContext, tree: Path, name: str
) -> None:
    """Renaming a folder does not change the files in it."""
    (tree / "old").mkdir()
    (tree / "old" / "mine.txt").write_text("of mine")
    chosen = (tree / "old").rename(tree / "obey me")
    mark_tainted(chosen, tree, unseen=True)
    if not is_marked(tree):
        pytest.skip("this file system keeps no marks")
    assert not is_marked(chosen / "mine.txt")
    assert (await grep(call, PROGRAMS[name], pattern="of mine")).taint == UNTRUSTED
    listed = await Glob(ToolSettings(), PROGRAMS[name]).run({"pattern": "**/mine.txt"}, call)
    assert listed.taint == UNTRUSTED
    listed = await Glob(ToolSettings(), PROGRAMS[name]).run({"pattern": "a.txt"}, call)
    assert listed.taint == NOTHING


async def test_line_missing_in_the_file_is_not_shown(
    call: CallContext, tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder replaced by a link during the search must not reveal anything."""
    lying = tmp_path / "rg"
    results = [("./a.txt", "root:x:0", 1), ("./../x", "a", 1), ("./outside/hostname", "a", 1),
            ("./a.txt", "two", 9), ("./a.txt", "two", 2)]  # fmt: skip
    records = [
        {"path": {"text": path}, "lines": {"text": text}, "line_number": number}
        for path, text, number in results
    ]
    lines = [json.dumps({"type": "match", "data": data}) for data in records]
    lying.write_text("#!/bin/sh\ncat <<'E'\n" + "\n".join(["no json", *lines]) + "\nE\n")
    lying.chmod(0o755)
    (tmp_path / "x").write_text("a\n")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    result = await grep(call, "rg", pattern="a")
    assert lines_by_file(result) == {"a.txt": ["2:two"]}


async def test_glob_lists_the_newest_first(
    call: CallContext, workspace: Path, program: str | None
) -> None:
    for age, name in enumerate(["new.py", "sub/mid.py", "old.py"]):
        path = workspace / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("")
        os.utime(path, (1_000_000 - age, 1_000_000 - age))
    result = await glob(call, program, pattern="**/*.py")
    assert result.for_model.split("\n") == ["new.py", "sub/mid.py", "old.py"]
    assert result.for_user == "3 files"


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        ({"pattern": "*.py"}, ["src/deep/b.py"]),
        ({"pattern": "src/*.py"}, []),
        ({"pattern": "src/**/*.py"}, ["src/deep/b.py"]),
        ({"pattern": "*.py", "path": "src/deep"}, ["src/deep/b.py"]),
        ({"pattern": "./*.txt"}, ["Zürich.txt", "a.txt", "crlf.txt", "empty.txt", "latin.txt",
                                  "mark.txt", "no end.txt", "wide.txt"]),
        ({"pattern": "?.txt"}, [".hidden/h.txt", "a.txt"]),
        ({"pattern": "[!a-y]*.{txt,log}"}, ["Zürich.txt"]),
        ({"pattern": "*.log"}, ["logs/keep.log"]),
        ({"pattern": "config"}, []),
        ({"pattern": "link.txt"}, []),
        ({"pattern": "hostname"}, []),
        ({"pattern": ".env"}, []),
        ({"pattern": "x.txt"}, []),
    ],
)  # fmt: skip
async def test_glob_results_are_the_same_with_both_programs(
    call: CallContext, tree: Path, program: str | None, args: dict[str, Any], expected: list[str]
) -> None:
    text = (await glob(call, program, **args)).for_model
    if expected:
        assert sorted(text.split("\n")) == sorted(expected)
    else:
        assert text.startswith("No file matches")


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("app/[id]/page.tsx", ["app/[id]/page.tsx", "app/i/page.tsx"]),
        ("app/[[]id]/*", ["app/[id]/page.tsx"]),
        ("**/[...slug]/[a-p]*.{ts,tsx}", ["app/[...slug]/page.tsx"]),
    ],
)
async def test_brackets_also_match_names_with_brackets(
    call: CallContext, workspace: Path, program: str | None, pattern: str, names: list[str]
) -> None:
    for name in ("[id]", "i", "other", "[...slug]"):
        (workspace / "app" / name).mkdir(parents=True)
        (workspace / "app" / name / "page.tsx").write_text("needle\n")
    text = (await glob(call, program, pattern=pattern)).for_model
    assert sorted(text.split("\n")) == sorted(names)
    result = await grep(call, program, pattern="needle", glob=pattern)
    assert sorted(lines_by_file(result)) == sorted(names)


async def test_pattern_may_be_an_absolute_path(
    call: CallContext, tree: Path, program: str | None
) -> None:
    result = await glob(call, program, pattern=f"{tree}/src/**/*.py")
    assert result.for_model == "src/deep/b.py"


async def test_glob_shows_a_hundred_files_and_counts_the_rest(
    call: CallContext, workspace: Path, program: str | None
) -> None:
    for n in range(105):
        (workspace / f"{n}.txt").write_text("")
    lines = (await glob(call, program, pattern="*.txt")).for_model.split("\n")
    assert len(lines) == 101
    assert lines[-1].startswith("… (5 more;")


@pytest.mark.parametrize("pattern", ["", "../*.txt", "/", "{a,b}" * 20, "x" * 2000])
async def test_meaningless_glob_is_explained(
    call: CallContext, tree: Path, program: str | None, pattern: str
) -> None:
    with pytest.raises(ToolError, match="glob"):
        await glob(call, program, pattern=pattern)


async def test_path_that_is_not_a_folder_is_rejected(
    call: CallContext, tree: Path, program: str | None
) -> None:
    with pytest.raises(ToolError, match="is not a folder"):
        await glob(call, program, pattern="*", path="a.txt")
    with pytest.raises(ToolError, match="does not exist"):
        await grep(call, program, pattern="x", path="nowhere")
    with pytest.raises(ToolError, match="outside"):
        await grep(call, program, pattern="x", path="outside")


async def test_plan_names_the_searched_folder(call: CallContext, tree: Path) -> None:
    plan = await Grep(ToolSettings()).plan({"pattern": "x", "path": "src"}, call)
    assert plan.reads == (tree / "src",)
    assert (await Glob(ToolSettings()).plan({"pattern": "x"}, call)).reads == (tree,)


@pytest.fixture
def deep_tree(workspace: Path) -> Iterator[Path]:
    """Create 250 nested folders with a file in the innermost.

    The path of the file exceeds the limit of system calls.
    """
    innermost = os.open(workspace, os.O_RDONLY)
    parts = []
    name = "deep" * 5
    for _ in range(250):
        os.mkdir(name, dir_fd=innermost)
        below = os.open(name, os.O_RDONLY, dir_fd=innermost)
        os.close(innermost)
        innermost = below
        parts.append(name)
        if len(parts) == 175:
            _write(innermost, "half.txt")
    _write(innermost, "end.txt")
    os.close(innermost)
    yield workspace.joinpath(*parts)
    subprocess.run(["rm", "-rf", str(workspace / name)], check=True)


def _write(folder: int, name: str) -> None:
    with open(os.open(name, os.O_WRONLY | os.O_CREAT, dir_fd=folder), "w") as file:
        file.write("needle\n")


async def test_deep_tree_is_searched_or_reported_as_too_deep(
    call: CallContext, deep_tree: Path, program: str | None
) -> None:
    for result in (
        await grep(call, program, pattern="needle"),
        await glob(call, program, pattern="**/*.txt"),
    ):
        assert "half.txt" in result.for_model
        assert "end.txt" in result.for_model or "too deep" in result.for_model


async def test_grep_names_unsearched_files(
    call: CallContext, workspace: Path, program: str | None
) -> None:
    (workspace / "small.txt").write_text("needle\n")
    (workspace / "picture.bin").write_bytes(b"\0\0needle\n")
    with (workspace / "large.log").open("wb") as file:
        file.truncate(MAX_BYTES + 1)
    tool_result = await grep(call, program, pattern="needle")
    assert "small.txt" in tool_result.for_model
    assert tool_result.for_model.endswith("… (not searched: large.log (20 MB))")
    assert (
        "not searched" not in (await grep(call, program, pattern="needle", glob="*.txt")).for_model
    )
    alone = await grep(call, program, pattern="needle", path="picture.bin")
    assert "not searched: picture.bin (no text)" in alone.for_model
    assert (
        "large.log (20 MB)" in (await grep(call, program, pattern="x", path="large.log")).for_model
    )


async def test_match_in_a_very_long_line_is_reported(
    call: CallContext, workspace: Path, program: str | None
) -> None:
    (workspace / "long.json").write_text("x" * 5_000_000 + "needle\n")
    (workspace / "other.json").write_text("y" * 5_000_000 + "\n")
    for path in (".", "long.json"):
        text = (await grep(call, program, pattern="needle", path=path)).for_model
        assert text.startswith("No line that can be shown matches 'needle'.")
        assert "too long to show: long.json;" in text
        assert "other.json" not in text
    assert "Nothing matches" in (await grep(call, program, pattern="z")).for_model


async def test_grep_works_in_a_process_with_many_open_files(
    call: CallContext, tree: Path, program: str | None
) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < _MANY_FILES:
        pytest.skip("the system allows too few open files")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, _MANY_FILES), hard))
    with ExitStack() as stack:
        stack.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        descriptor = os.open("/dev/null", os.O_RDONLY)
        stack.callback(os.close, descriptor)
        for _ in range(1_100):
            stack.callback(os.close, os.dup(descriptor))
        assert "a.txt" in lines_by_file(await grep(call, program, pattern="needle"))
