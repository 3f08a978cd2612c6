"""Benchmark of the project tree in the model's context, and of its update.

The baseline is a walk over the same folders by os.walk.
"""

import os
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from agent.context.project.context import ProjectContext
from agent.context.project.directory_tree import TreeLimits, tree
from agent.providers.token_estimate import estimate_text
from bench.code.large_trees import large_trees
from bench.figure import Figure, sampled

TIMES = 5


async def measure(command: Sequence[str]) -> list[Figure]:
    figures: list[Figure] = []
    for root, _, size in large_trees():
        walked_ms = sorted(_timed(partial(_walk, root)))[TIMES // 2]
        trees_ms = _timed(partial(tree, root, TreeLimits()))
        figures.append(
            sampled(f"{size}: tree", "ms", trees_ms, bare=walked_ms, goal=1_000, goal_p95=1_000)
        )
        figures += _measure_tree(root, size)
    return figures


def _measure_tree(root: Path, size: str) -> list[Figure]:
    """Measure the first tree, and the update after one file was added at the top."""
    project = ProjectContext(root)
    first = project.news()
    (root / "new.py").write_text("x")
    began = time.perf_counter()
    second = project.news()
    second_ms = (time.perf_counter() - began) * 1000
    assert first is not None
    assert second is not None
    whole_tokens, tokens = estimate_text(first.text), estimate_text(second.text)
    return [
        Figure(f"{size}: told again after a change", "tokens", tokens, bare=whole_tokens),
        Figure(f"{size}: to find that", "ms", second_ms, goal=1_000),
    ]


def _walk(root: Path) -> int:
    return sum(1 for _ in os.walk(root))


def _timed(work: Callable[[], object]) -> list[float]:
    taken_ms = []
    for _ in range(TIMES):
        began = time.perf_counter()
        work()
        taken_ms.append((time.perf_counter() - began) * 1000)
    return taken_ms
