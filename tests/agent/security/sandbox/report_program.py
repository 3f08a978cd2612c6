"""Runs shell lines under Landlock as the current user and prints the report about each.

    echo '{"lines": [...], "folder": "/srv/test", "abi": 7}' | python report_program.py

The script needs only the package `agent`.
"""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from agent.security.sandbox.base import SandboxCommand
from agent.security.sandbox.command_report import ReportPipe
from agent.security.sandbox.landlock.sandbox import Landlock
from agent.tools.shell.process_group import run


async def report(line: str, folder: Path, abi: int) -> Any:
    output = bytearray()
    with ReportPipe() as pipe:
        job = SandboxCommand(line, folder, folder, report=pipe)
        with Landlock(abi).prepare(job) as spawn:
            end = await run(spawn, 60, output.extend)
        facts = pipe.read()
    return end.code, facts.pipeline, facts.left_processes, output.decode()


async def main() -> None:
    order = json.load(sys.stdin)
    folder = Path(order["folder"])
    print(json.dumps([await report(line, folder, order["abi"]) for line in order["lines"]]))


if __name__ == "__main__":
    asyncio.run(main())
