"""Repeated swaps of a folder or a file for a link, while tools use it."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from agent.context.project.instructions import Instructions
from agent.errors import ToolError
from agent.security.taint.origin import TrustedOrigins
from agent.settings import ToolSettings
from agent.tools.assistant.remember import Remember
from agent.tools.base import CallContext, Tool, ToolEnvironment
from agent.tools.files.edit import EditFile
from agent.tools.files.glob import Glob
from agent.tools.files.grep import Grep
from agent.tools.files.list_dir import ListDir
from agent.tools.files.read_write import AppendFile, ReadFile, WriteFile
from agent.types import ToolCall

ROOT = Path(__file__).parents[3]
SWAPS = 2_000
CALLS, FEW, READS = 40, 5, 400
CANARY = "canary"
# Cases with a folder below the swapped one, where the two ways to open differ most.
DEEP = "(deep or append) and not kernel"

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs renameat2")


class Swaps:
    """Number of exchanges of the two names, set after the end of the swapping."""

    count = 0


@contextmanager
def run_swaps(one: Path, other: Path) -> Iterator[Swaps]:
    swaps = Swaps()
    command = [sys.executable, "-m", "tests.agent.security.paths.swapper", one, other, str(SWAPS)]
    with subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        try:
            yield swaps
        finally:
            result, _ = process.communicate(timeout=60)
            swaps.count = int(result)


@pytest.fixture
def world(tmp_path: Path) -> Path:
    for name in ("ws/d/f.txt", "ws/d/deep/f.txt", "ws/memory/MEMORY.md", "ws/one.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("inside\n")
    for name in ("out/f.txt", "out/deep/f.txt", "out/MEMORY.md", "out/one.txt", "out/deep/secret"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(f"{CANARY}\n")
    (tmp_path / "ws" / "link").symlink_to(tmp_path / "out")
    (tmp_path / "ws" / "link.txt").symlink_to(tmp_path / "out" / "one.txt")
    return tmp_path


SETTINGS = ToolSettings()
WAYS: dict[str, tuple[Tool, dict[str, Any], str, str]] = {
    "read": (ReadFile(SETTINGS), {"path": "d/f.txt"}, "d", "link"),
    "read deep": (ReadFile(SETTINGS), {"path": "d/deep/f.txt"}, "d", "link"),
    "read a file": (ReadFile(SETTINGS), {"path": "one.txt"}, "one.txt", "link.txt"),
    "list": (ListDir(SETTINGS), {"path": "d", "depth": 3}, "d", "link"),
    "list from above": (ListDir(SETTINGS), {"depth": 3}, "d", "link"),
    "grep": (Grep(SETTINGS), {"pattern": ".", "path": "d"}, "d", "link"),
    "grep from above": (Grep(SETTINGS), {"pattern": "."}, "d", "link"),
    "glob": (Glob(SETTINGS), {"pattern": "**/*", "path": "d"}, "d", "link"),
    "glob from above": (Glob(SETTINGS), {"pattern": "**/*"}, "d", "link"),
    "write": (WriteFile(SETTINGS), {"path": "d/f.txt", "content": "inside 2\n"}, "d", "link"),
    "write new": (WriteFile(SETTINGS), {"path": "d/n/e/w", "content": "inside"}, "d", "link"),
    "write a file": (
        WriteFile(SETTINGS),
        {"path": "one.txt", "content": "x"},
        "one.txt",
        "link.txt",
    ),
    "append": (AppendFile(SETTINGS), {"path": "d/deep/f.txt", "content": "x"}, "d", "link"),
    "edit": (
        EditFile(SETTINGS),
        {"path": "d/f.txt", "old_string": "\n", "new_string": "\n "},
        "d",
        "link",
    ),
    "remember": (Remember(SETTINGS), {"text": "a fact"}, "memory", "link"),
}
# A new file replaces the link itself, and listings from above skip the link.
NEVER_REFUSED = ("write a file", "list from above", "grep from above", "glob from above")


# Searches from above take seconds each.
_SLOW = ("grep from above", "glob from above")


@pytest.mark.parametrize(
    "way", [pytest.param(way, marks=pytest.mark.slow) if way in _SLOW else way for way in WAYS]
)
async def test_swapped_link_is_not_followed(world: Path, way: str) -> None:
    tool, args, outcome, other = WAYS[way]
    ws = world / "ws"
    call = CallContext(
        ToolCall("c", "t", {}, "{}"),
        ToolEnvironment("s", ws, ws / "memory" / "MEMORY.md", owner=True),
        lambda *_: None,
    )
    outside = {p: p.read_bytes() for p in (world / "out").rglob("*") if p.is_file()}
    shown: list[str] = []
    done = refused = 0
    with run_swaps(ws / outcome, ws / other) as swaps:
        while done < FEW or (refused < FEW and way not in NEVER_REFUSED) or len(shown) < CALLS:
            try:
                result = await tool.run(args, call)
            except ToolError as exc:
                shown.append(str(exc))
                refused += 1
                continue
            done += 1
            shown.append(
                result.for_model + "".join(artifact.content for artifact in result.artifacts)
            )
    assert swaps.count >= SWAPS
    assert not [text for text in shown if CANARY in text or "secret" in text]
    assert {p: p.read_bytes() for p in (world / "out").rglob("*") if p.is_file()} == outside


def test_swapped_link_is_not_followed_without_openat2() -> None:
    """Test the walk that replaces `openat2`, in a process without that call."""
    start = "import sys, pytest; from tests.agent.security.paths.old_kernel import forbid_openat2; "
    run = f"forbid_openat2(); sys.exit(pytest.main(['-n0', '-q', {__file__!r}, '-k', {DEEP!r}]))"
    done = subprocess.run(
        [sys.executable, "-c", start + run], cwd=ROOT, capture_output=True, text=True, timeout=100
    )
    assert done.returncode == 0, done.stdout[-2000:]
    assert done.stdout.split()[0] == ".."


@pytest.mark.parametrize("swapped", ["import", "folder"])
def test_instructions_are_not_read_through_a_swapped_link(world: Path, swapped: str) -> None:
    """An error while reading instructions would end the turn."""
    ws = world.resolve() / "ws"
    (ws / ".git").mkdir()
    (ws / "AGENTS.md").write_text("rules: @d/f.txt\n" if swapped == "import" else "rules\n")
    for folder in ("ws/d", "out"):
        (world / folder / "AGENTS.md").write_text((world / folder / "f.txt").read_text())
    place = ws if swapped == "import" else ws / "d"
    texts = []
    with run_swaps(ws / "d", ws / "link") as swaps:
        while len(texts) < READS or len({"inside" in text for text in texts}) < 2:
            texts.append(Instructions(ws, TrustedOrigins((ws,))).read(place).text)
    assert swaps.count >= SWAPS
    assert not [text for text in texts if CANARY in text]
