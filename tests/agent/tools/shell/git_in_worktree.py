"""Runs command lines in a linked worktree whose store lies elsewhere.

    echo '{"name": "landlock", "folder": "/srv/test", "lines": ["git status"]}' | python …

The output is JSON: exit code and output of each line, and the bytes of the store's control files
before and after. The script needs only the package `agent` and driver.py.
"""

import asyncio
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from agent.security.sandbox.base import SandboxCommand
from agent.security.sandbox.git_defaults import read_git_defaults
from agent.settings import ToolSettings
from agent.tools.base import CallContext, ToolEnvironment
from agent.tools.shell.mount_restrictions import mount_restrictions
from agent.tools.shell.process_group import run
from agent.types import ToolCall
from tests.agent.security.sandbox.driver import sandbox

IDENTITY = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org")
FIXED = ("config", "HEAD")


def git(folder: Path, *arguments: str) -> None:
    subprocess.run(["git", *IDENTITY, *arguments], cwd=folder, check=True, capture_output=True)


async def main(order: dict[str, Any]) -> dict[str, Any]:
    top = Path(tempfile.mkdtemp(dir=order["folder"]))
    main_folder, side = top / "main", top / "side"
    main_folder.mkdir()
    git(main_folder, "init", "-q", "-b", "main")
    git(main_folder, "commit", "-q", "--allow-empty", "-m", "first")
    git(main_folder, "worktree", "add", "-q", "-b", "side", str(side))
    call = CallContext(
        ToolCall("c1", "exec", {}, "{}"),
        ToolEnvironment("s1", side, side / "memory/MEMORY.md", owner=True),
        lambda text, stream: None,
    )
    temporary = top / "temporary"
    for name in ("tmp", "shm"):
        (temporary / name).mkdir(parents=True)
    if "home" in order:
        os.environ["HOME"] = order["home"]
    store = main_folder / ".git"
    before = {name: (store / name).read_text() for name in FIXED}
    results = []
    for line in order["lines"]:
        covered = mount_restrictions(ToolSettings(), call)
        job = SandboxCommand(
            line.replace("{store}", str(store)),
            side,
            side,
            read_only_paths=covered.read_only_paths,
            store=covered.outer_store,
            temporary=temporary,
            git_defaults=read_git_defaults(side),
        )
        output = bytearray()
        with sandbox(order["name"], None).prepare(job) as spawn:
            ended = await run(spawn, 30, output.extend)
        results.append([ended.code, output.decode()])
    after = {name: (store / name).read_text() for name in FIXED}
    return {"results": results, "before": before, "after": after}


if __name__ == "__main__":
    print(json.dumps(asyncio.run(main(json.load(sys.stdin)))))
