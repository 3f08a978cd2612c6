"""Reports about commands under Landlock; `test_sandbox_remark.py` has those under bubblewrap."""

import os
from pathlib import Path
from typing import Any

import pytest

from agent.security.sandbox.landlock.sandbox import kernel_abi
from tests.ordinary_user import USERS, require_sandbox, run_as, shared_place

PROGRAM = Path("tests", "agent", "security", "sandbox", "report_program.py")
# Fills the pipe of the report, and makes it block the next writer.
FILL = r"""
import fcntl, os
for pipe in range(3, 64):
    try:
        while os.write(pipe, b"x" * 4096): pass
    except BlockingIOError:
        fcntl.fcntl(pipe, fcntl.F_SETFL, 0)
    except OSError:
        pass
"""
LINES = {
    "exit 3 | false | cat": [0, [3, 1, 0], [], ""],
    "true": [0, [], [], ""],
    "kill -9 $$": [-9, [], [], ""],
    "sleep 600 & setsid sleep 601 >/dev/null 2>&1 & echo started": [0, [], ["sleep"], "started\n"],
    "sleep 0 & wait": [0, [], [], ""],
    f"sleep 600 & python3 -c '{FILL}'": [0, [], [], ""],
}


@pytest.mark.skipif(not os.path.exists("/bin/bash"), reason="bash is not installed")
def test_report_under_landlock() -> None:
    require_sandbox("landlock")
    order = {"lines": list(LINES), "abi": kernel_abi()}
    with shared_place(PROGRAM) as place:
        reports: list[Any] = run_as(USERS[-1], place, PROGRAM, order)
    assert dict(zip(LINES, reports, strict=True)) == LINES
