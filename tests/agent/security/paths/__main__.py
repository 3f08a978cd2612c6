"""Runs every file tool on every path of the corpus and prints the results as JSON.

python -m tests.agent.security.paths FOLDER [--as UID] [--without-openat2] [--mounts]
    [--search-every N]
"""

import argparse
import asyncio
import difflib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import re2
from pathspec.patterns.gitignore.spec import GitIgnoreSpecPattern

from agent.errors import ToolError
from agent.security.files.safe_open import has_openat2
from agent.settings import ToolSettings
from agent.tools.base import CallContext, DescribesEffects, Tool, ToolEnvironment
from agent.tools.files.edit import EditFile
from agent.tools.files.glob import Glob
from agent.tools.files.grep import Grep
from agent.tools.files.list_dir import ListDir
from agent.tools.files.read_write import AppendFile, ReadFile, WriteFile
from agent.types import ToolCall
from tests.agent.security.paths.cases import ALLOWED, HARMLESS, REFUSED
from tests.agent.security.paths.old_kernel import forbid_openat2
from tests.agent.security.paths.world import CANARY, INSIDE, build, protected_state

# The tools import these lazily, and the other user may not have access to Python's folder.
PRELOADED = (difflib, re2, GitIgnoreSpecPattern)

MOUNTED = (
    *("mnt", "mnt/self/environ", "mnt/self/root/etc/passwd", "mnt/self/status", "mnt/1/environ"),
    *("mnt/self/fd", "mnt/self/task", "mnt/sys/kernel/hostname", "bound", "d/../bound"),
)
# A check after every call would take longer than all the calls.
LOOK_EVERY = 25
SECRETS = (CANARY, "root:x:0:0", "VmPeak")


def tools(settings: ToolSettings) -> list[tuple[Tool, dict[str, Any]]]:
    return [
        (ReadFile(settings), {}),
        (ListDir(settings), {"depth": 5}),
        (EditFile(settings), {"old_string": "a", "new_string": "b"}),
        (AppendFile(settings), {"content": "appended"}),
        (WriteFile(settings), {"content": "written"}),
    ]


def searches(settings: ToolSettings) -> list[tuple[Tool, dict[str, Any]]]:
    """Return the search tools; without a path they search the whole workspace."""
    return [(Glob(settings), {"pattern": "**/*"}), (Grep(settings), {"pattern": "."})]


class Report:
    """Number of calls, and a line for each escape."""

    def __init__(self, tmp: Path, *, search_every: int) -> None:
        self.tmp = tmp
        self.calls = 0
        self.paths = 0
        self.search_every = search_every
        self.escapes: list[str] = []
        self.let_through: list[str] = []
        ws = tmp / "ws"
        memory = ws / "memory" / "telegram" / "7" / "MEMORY.md"
        self.call = CallContext(
            ToolCall("c", "t", {}, "{}"),
            ToolEnvironment("s", ws, memory),
            lambda text, stream: None,
        )
        settings = ToolSettings(off_limits=(tmp / "home",))
        self.restricted = tools(settings)
        self.searches = searches(settings)
        self.before = protected_state(tmp)
        self._requests: list[str] = []

    async def ask(self, asked: str, *, refused: bool) -> list[str]:
        """Return the answers of the tools that accepted the path."""
        path = asked.replace("{tmp}", str(self.tmp)).replace("{ws}", str(self.tmp / "ws"))
        answers = []
        is_searched = self.search_every > 0 and self.paths % self.search_every == 0
        self.paths += 1
        for tool, args in [*self.restricted, *(self.searches if is_searched else ())]:
            self.calls += 1
            try:
                text = await self._answer(tool, {"path": path, **args})
            except ToolError as exc:
                if any(secret in str(exc) for secret in SECRETS):
                    self.escapes.append(f"{tool.name} {asked!r} told a secret in its refusal")
                continue
            answers.append(text)
            if any(secret in text for secret in SECRETS):
                self.escapes.append(f"{tool.name} {asked!r} showed a secret")
            if refused and (asked or tool.name not in ("glob", "grep")):
                self.let_through.append(f"{tool.name} {asked!r}")
        self._requests.append(asked)
        if len(self._requests) == LOOK_EVERY:
            self.look()
        return answers

    def look(self) -> None:
        """Record an escape if a request since the last check changed protected files."""
        now = protected_state(self.tmp)
        names = now.keys() | self.before.keys()
        if changed := sorted(k for k in names if now.get(k) != self.before.get(k)):
            self.escapes.append(f"one of {self._requests} changed {changed}")
        self.before, self._requests = now, []

    async def _answer(self, tool: Tool, args: dict[str, Any]) -> str:
        if isinstance(tool, DescribesEffects) and not self._is_mine(args["path"]):
            # A broken tool would overwrite files of this machine.
            return repr(await tool.plan(args, self.call))
        result = await tool.run(args, self.call)
        return result.for_model + "".join(a.content for a in result.artifacts)

    def _is_mine(self, path: str) -> bool:
        try:
            return Path(os.path.realpath(self.tmp / "ws" / path)).is_relative_to(self.tmp)
        except (OSError, ValueError):
            return True


async def run(tmp: Path, mounts: bool, search_every: int) -> dict[str, Any]:
    build(tmp)
    if mounts:
        (tmp / "ws" / "mnt").mkdir()
        (tmp / "ws" / "bound").touch()
        subprocess.run(["mount", "-t", "proc", "proc", tmp / "ws" / "mnt"], check=True)
        subprocess.run(["mount", "--bind", "/proc/self/status", tmp / "ws" / "bound"], check=True)
    # The kernel's views are too large to search.
    report = Report(tmp, search_every=0 if mounts else search_every)
    reached = [path for path in ALLOWED if INSIDE in "".join(await report.ask(path, refused=False))]
    for path in REFUSED + (MOUNTED if mounts else ()):
        await report.ask(path, refused=True)
    for path in HARMLESS:
        await report.ask(path, refused=False)
    report.look()
    return {
        "uid": os.getuid(),
        "openat2": has_openat2(),
        "cases": len(REFUSED) + len(HARMLESS) + (len(MOUNTED) if mounts else 0),
        "calls": report.calls,
        "escapes": report.escapes,
        "let_through": report.let_through,
        "reached": reached,
    }


def become(uid: int) -> None:
    """Drop all rights of root permanently.

    Call it only after the imports: the interpreter and its libraries may be in folders that this
    user cannot access.
    """
    asyncio.run(asyncio.to_thread(str))
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--as", dest="uid", type=int)
    parser.add_argument("--without-openat2", action="store_true")
    parser.add_argument("--mounts", action="store_true")
    parser.add_argument("--search-every", type=int, default=1, help="search every Nth path only")
    options = parser.parse_args()
    if options.uid:
        become(options.uid)
    if options.without_openat2:
        forbid_openat2()
    json.dump(asyncio.run(run(options.folder, options.mounts, options.search_every)), sys.stdout)


if __name__ == "__main__":
    main()
