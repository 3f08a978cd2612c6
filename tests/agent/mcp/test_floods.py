"""Floods of messages end only the server that sends them."""

import asyncio
import resource
import time
from pathlib import Path

import pytest

from tests.agent.mcp.serving import Approver, ask_agent, stand_in, tool_message

pytest.importorskip("mcp", reason="needs the extra mcp")
# Measured: 40 s and 2 GB without a budget, 0.3 s and 200 MB with it. The test counts processor
# time, because the machine may be busy.
MAX_PAUSE_S = 2.0
MAX_GROWTH_KB = 600_000


async def longest_pause_s(until: "asyncio.Task[object]") -> float:
    """Return the longest time that other tasks of the loop had to wait."""
    longest_s = 0.0
    while not until.done():
        began_at = time.process_time()
        await asyncio.sleep(0.01)
        longest_s = max(longest_s, time.process_time() - began_at)
    return longest_s


async def test_output_after_a_clean_close_is_no_flood(tmp_path: Path) -> None:
    result = await ask_agent(
        tmp_path, stand_in("farewell"), "mcp__s__echo", {"text": "x"}, Approver()
    )
    assert tool_message(result) == "x"
    log = next(tmp_path.glob("mcp/s-*/log")).read_text()
    assert log.splitlines()[-1] == "[ended with exit code 0]"


@pytest.mark.parametrize("behaviour", ["shouts", "swarm"])
async def test_flood_of_notifications_does_not_stall_the_loop(
    tmp_path: Path, behaviour: str
) -> None:
    before_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    server = stand_in(behaviour, timeout_s=60.0)
    call = asyncio.create_task(
        ask_agent(tmp_path, server, "mcp__s__echo", {"text": "x"}, Approver()), name="call"
    )
    pause_s = await longest_pause_s(call)
    assert "ended during the tool echo" in tool_message(await call)
    log = next(tmp_path.glob("mcp/s-*/log"))
    assert b"It sends endless data." in log.read_bytes()
    assert pause_s < MAX_PAUSE_S
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kb < MAX_GROWTH_KB
