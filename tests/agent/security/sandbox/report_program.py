"""Runs shell lines under Landlock as the current user and prints the report about each.

    echo '{"lines": [...], "folder": "/srv/test", "abi": 7}' | python report_program.py

With {"files": {"PATH": "text"}} these are made in a home folder first, which is $HOME_HERE to the
lines; its toolchains and caches are shown. The script needs only the package `agent`.
"""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from agent.security.sandbox.base import SandboxCommand
from agent.security.sandbox.command_report import ReportPipe
from agent.security.sandbox.environment import find_toolchains
from agent.security.sandbox.landlock.sandbox import Landlock
from agent.tools.shell.process_group import run


async def report(line: str, folder: Path, box: Landlock, home: Path) -> Any:
    output = bytearray()
    with ReportPipe() as pipe:
        variables = {"HOME_HERE": str(home)}
        job = SandboxCommand(line, folder, folder, report=pipe, variables=variables)
        with box.prepare(job) as spawn:
            end = await run(spawn, 60, output.extend)
        facts = pipe.read()
    return end.code, facts.pipeline, facts.left_processes, output.decode()


async def main() -> None:
    order = json.load(sys.stdin)
    home, folder = (Path(order["folder"], name) for name in ("home", "workspace"))
    for path in (home, folder):
        path.mkdir()
    for name, text in order.get("files", {}).items():
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(text)
    box = Landlock(order["abi"], toolchains=find_toolchains(home))
    print(json.dumps([await report(line, folder, box, home) for line in order["lines"]]))


if __name__ == "__main__":
    asyncio.run(main())
