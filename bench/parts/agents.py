"""Benchmark of 200 realistic agent definitions, uncached and cached."""

import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from agent.subagents.catalog import CatalogPaths, SubagentCatalog
from bench.figure import Figure, sampled

FILES = 200
ROUNDS = 15
# Half of the published definitions are not valid YAML, mostly because of a colon in the
# description.
_HEADS = (
    "description: Use this agent when: the user asks. <example>Context: x\\nuser: 'y'</example>",
    "description: Reviews changes for mistakes and risks.\ncolor: blue",
)
_BODY = "You are an expert in your field. Work carefully and say what you found.\n" * 40


async def measure(command: Sequence[str]) -> list[Figure]:
    with tempfile.TemporaryDirectory(prefix="kore-bench-") as scratch:
        home = Path(scratch)
        folder = home / ".claude" / "agents"
        folder.mkdir(parents=True)
        for n in range(FILES):
            head = (
                f"---\nname: agent-{n}\n{_HEADS[n % 2]}\ntools: Read, Grep, Bash\nmodel: sonnet\n"
            )
            (folder / f"agent-{n}.md").write_text(f"{head}---\n{_BODY}")
        fresh, cached, bare = [], [], []
        for _ in range(ROUNDS):
            catalogue = SubagentCatalog(CatalogPaths(home, home / ".kore"))
            fresh.append(_ms(catalogue))
            cached.append(_ms(catalogue))
            began = time.perf_counter()
            for path in folder.iterdir():
                path.read_bytes()
            bare.append((time.perf_counter() - began) * 1000)
    note = "the bare figure only reads the bytes of the same files"
    read_ms = sorted(bare)[len(bare) // 2]
    return [
        sampled(f"{FILES} agents loaded", "ms", fresh, bare=read_ms, goal=100, note=note),
        sampled(f"{FILES} agents, cached", "ms", cached, goal=20),
    ]


def _ms(catalogue: SubagentCatalog) -> float:
    began = time.perf_counter()
    assert len(catalogue.load()) > FILES
    return (time.perf_counter() - began) * 1000
