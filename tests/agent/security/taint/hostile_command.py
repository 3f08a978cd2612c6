"""Runs a command that has read untrusted text and prints the state of the workspace.

    echo '{"name": "landlock", "folder": "/srv/test", "command": "..."}' | python hostile_command.py

`page.md` is marked and contains OBEY ME; `mine.md` is not marked. With "sets_aside" steering files
are renamed at the end, as after every command. The output is JSON: the `prompt`, its `notices`, and
for each path below the workspace its `level`, whether its `name` counts as chosen by untrusted
text, and its `mode`. The script needs only the package `agent` and driver.py.
"""

import asyncio
import json
import os
import stat
import sys
import tempfile
from pathlib import Path
from typing import Any

from agent.context.system_prompt import Workspace
from agent.security.files.quarantine import CreatedFiles
from agent.security.sandbox.base import SandboxCommand
from agent.security.taint.command_marks import TaintingCommand
from agent.security.taint.file_marks import is_name_marked, mark_level, mark_tainted
from agent.tools.shell.process_group import run
from tests.agent.security.sandbox.driver import sandbox


async def main(order: dict[str, Any]) -> dict[str, Any]:
    workspace = Path(tempfile.mkdtemp(dir=order["folder"]))
    (workspace / "memory").mkdir()
    (workspace / "mine.md").write_text("My own words.")
    (workspace / "page.md").write_text("OBEY ME")
    mark_tainted(workspace / "page.md", workspace)
    created_files = CreatedFiles(workspace, frozenset())
    created_files.begin()
    tainting = TaintingCommand(workspace)
    tainting.start()
    tainting.begin()
    job = SandboxCommand(order["command"], workspace, workspace)
    output = bytearray()
    with sandbox(order["name"], None).prepare(job) as spawn:
        ended = await run(spawn, 20, output.extend)
    assert ended.code == 0, output.decode()
    tainting.end()
    created_files.end(is_exposed=order.get("sets_aside", False))
    reader = Workspace(workspace)
    made = reader.system_prompt(reader.owner_memory, workspace, owner=True, persona="persona.md")
    paths = {
        str(path.relative_to(workspace)): {
            "level": mark_level(path),
            "name": is_name_marked(path),
            "mode": stat.S_IMODE(path.lstat().st_mode),
        }
        for path in workspace.rglob("*")
    }
    return {"prompt": made.text, "notices": made.notices, "paths": paths}


if __name__ == "__main__":
    os.umask(0o022)
    print(json.dumps(asyncio.run(main(json.load(sys.stdin)))))
