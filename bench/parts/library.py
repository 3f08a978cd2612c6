"""Benchmark of the core as a library: streamed chunks, and turns that call tools.

The baseline makes the same requests with the same HTTP library, parses every chunk and reads the
same files, without any guarantees.
"""

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import aiohttp

from agent.agent import Agent
from agent.events import TextDelta
from agent.providers.pool import ModelPool
from agent.providers.registry import ModelConfig
from bench.figure import Figure, sampled
from bench.model import CHUNKS, CHUNKS_APART
from bench.process import ROOT, Running, environ

ROUNDS = 9
CALLS = 20
READS = 8


@dataclass(slots=True)
class CallTimes:
    """Times of a round in milliseconds: total CPU, total time, and time until the first text."""

    cpu_ms: float
    ms: float
    first_ms: float


async def measure(command: Sequence[str]) -> list[Figure]:
    figures = []
    async with _stage() as (url, folder, session):
        for name, model, count in (
            ("a streamed chunk, CPU", "chunks", CHUNKS),
            ("a chunk that comes alone, CPU", "apart", CHUNKS_APART),
        ):
            bare, own = await _rounds(url, folder, session, model)
            costs = [taken.cpu_ms * 1000 / count for taken in own]
            least = median(taken.cpu_ms for taken in bare) * 1000 / count
            figures.append(sampled(name, "µs", costs, bare=least, goal=1.5 * least))
        firsts, first = [t.first_ms for t in own], median(t.first_ms for t in bare)
        figures.append(sampled("time to first text", "ms", firsts, bare=first))
        for name, model in (
            (f"turn with {CALLS} tool calls", f"calls-{CALLS}-1"),
            (f"turn with {READS} reads at once", f"calls-1-{READS}"),
        ):
            bare, own = await _rounds(url, folder, session, model)
            least = median(taken.ms for taken in bare)
            figures.append(sampled(name, "ms", [taken.ms for taken in own], bare=least))
            calls = CALLS if "20" in model else READS
            call_ms = (median(taken.ms for taken in own) - least) / calls
            figures.append(Figure("the same, net, for each call", "ms", call_ms, goal=5))
    return figures


@asynccontextmanager
async def _stage() -> AsyncIterator[tuple[str, Path, aiohttp.ClientSession]]:
    script = [sys.executable, "-m", "bench.model"]
    with (
        tempfile.TemporaryDirectory(prefix="kore-bench-") as name,
        Running(script, environ(), ROOT, stdout=subprocess.PIPE) as server,
    ):
        assert server.process.stdout is not None
        url = json.loads(server.process.stdout.readline())["url"]
        for n in range(max(CALLS, READS)):
            Path(name, f"{n}.txt").write_text(f"The text of file {n}.\n" * 20)
        async with aiohttp.ClientSession() as session:
            yield url, Path(name), session


async def _rounds(
    url: str, folder: Path, session: aiohttp.ClientSession, model: str
) -> tuple[list[CallTimes], list[CallTimes]]:
    """Run both alternately, so that machine load affects both; the first round warms up."""
    key = "a-key-that-is-looked-for"
    config = ModelConfig("m", f"openai/{model}", api_base=url, api_key=key)
    agent = Agent(ModelPool("m", known=[config]), workspace=folder)
    rounds = []
    for _ in range(ROUNDS + 1):
        bare = await _timed(_bare(session, url, folder, model))
        rounds.append((bare, await _timed(_own(agent))))
    await agent.aclose()
    bares, owns = zip(*rounds[1:], strict=True)
    return list(bares), list(owns)


async def _timed(texts: AsyncIterator[str]) -> CallTimes:
    began, cpu, first = time.perf_counter(), time.process_time(), 0.0
    async for _ in texts:
        first = first or time.perf_counter()
    ended = time.perf_counter()
    spent = time.process_time() - cpu
    return CallTimes(spent * 1000, (ended - began) * 1000, (first - began) * 1000)


async def _own(agent: Agent) -> AsyncIterator[str]:
    async with aclosing(agent.stream("go on")) as stream:
        async for event in stream:
            if isinstance(event, TextDelta):
                yield event.text


async def _bare(
    session: aiohttp.ClientSession, url: str, folder: Path, model: str
) -> AsyncIterator[str]:
    messages: list[dict[str, Any]] = [{"role": "user", "content": "go on"}]
    while True:
        calls: list[dict[str, Any]] = []
        body = {"model": model, "stream": True, "messages": messages}
        async with session.post(f"{url}/chat/completions", json=body) as response:
            async for line in response.content:
                if line.startswith(b"data: {"):
                    delta = json.loads(line[6:])["choices"][0]["delta"]
                    calls += delta.get("tool_calls", ())
                    if text := delta.get("content"):
                        yield text
        if not calls:
            return
        messages.append({"role": "assistant", "content": "", "tool_calls": calls})
        for call in calls:
            name = json.loads(call["function"]["arguments"])["path"]
            text = (folder / name).read_text()
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": text})
