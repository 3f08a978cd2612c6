"""Values per event loop, and how they end with it."""

import asyncio
import os
import sys
from pathlib import Path

from agent.per_loop import PerLoop
from tests.fakes.model import ModelServer

_PROGRAM = """
import asyncio, kore

async def main():
    agent = kore.Agent("openai/fake", workspace={folder!r})
    print((await agent.run("hi")).text)

for _ in range(2):
    asyncio.run(main())
"""


def test_value_is_closed_with_its_loop() -> None:
    closed: list[str] = []

    async def close(value: str) -> None:
        closed.append(value)

    names = iter("abcd")
    values = PerLoop(lambda: next(names), close)

    async def use() -> str:
        assert values.get() == values.get()
        return values.get()

    assert [asyncio.run(use()) for _ in range(2)] == ["a", "b"]
    assert closed == ["a", "b"]


def test_taken_value_is_not_closed_again() -> None:
    closed: list[str] = []

    async def close(value: str) -> None:
        closed.append(value)

    names = iter("abcd")
    values = PerLoop(lambda: next(names), close)

    async def use() -> None:
        values.get()
        assert values.take() == ["a"]
        assert values.get() == "b"

    asyncio.run(use())
    assert closed == ["b"]


async def test_agent_that_nobody_closes_prints_no_warnings(tmp_path: Path) -> None:
    async with ModelServer() as model:
        environ = {**os.environ, "OPENAI_API_KEY": "k", "OPENAI_BASE_URL": model.base_url}
        program = _PROGRAM.format(folder=str(tmp_path))
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-W", "default", "-c", program),
            env=environ,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        async with asyncio.timeout(60):
            out, err = await process.communicate()
    assert out.decode() == "echo: hi\n" * 2
    assert err.decode() == ""
