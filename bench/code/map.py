"""Benchmark of the repository map: first answer, complete scan, and next answer.

The baseline is one process that only parses the same files, without a limit.
"""

import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from agent.code.symbols.repository_map import RepositoryMaps
from agent.code.symbols.tag_cache import TagCache
from agent.settings import ToolSettings
from agent.tools.base import CallContext, ToolEnvironment
from agent.tools.child_process import program
from agent.tools.files.workspace_scope import WorkspaceScope
from agent.types import ToolCall
from bench.figure import Figure

SIZES = (1_000, 10_000)


async def measure(command: Sequence[str]) -> list[Figure]:
    figures: list[Figure] = []
    for count in SIZES:
        with tempfile.TemporaryDirectory(prefix="kore-bench-") as name:
            figures += await _of_size(Path(name).resolve(), count)
    return figures


async def _of_size(root: Path, count: int) -> list[Figure]:
    paths = _make(root, count)
    cache = TagCache(root.with_name(f"{root.name}-maps"))
    maps = RepositoryMaps(cache)
    scope, call = WorkspaceScope(ToolSettings()), _call(root)

    async def answer() -> tuple[float, str]:
        began = time.perf_counter()
        result = await maps.answer(root, call, scope)
        return time.perf_counter() - began, result.for_model

    began = time.perf_counter()
    first_s, text = await answer()
    while "looked at so far" in text:
        _, text = await answer()
    whole_s = time.perf_counter() - began
    warm_s, _ = await answer()
    paths[0].write_text("class Changed:\n    pass\n")
    changed_s, _ = await answer()
    await maps.aclose()
    maps = RepositoryMaps(cache)
    began = time.perf_counter()
    while "looked at so far" in (await answer())[1]:
        pass
    restart_s = time.perf_counter() - began
    await maps.aclose()
    size = f"{count:,} files"
    return [
        Figure(f"{size}: first answer", "s", first_s, goal=1.5),
        Figure(f"{size}: all looked at", "s", whole_s, bare=_parse_s(paths)),
        Figure(f"{size}: next answer", "s", warm_s, goal=1.0),
        Figure(f"{size}: after a change", "s", changed_s, goal=1.5),
        Figure(f"{size}: whole, after a restart", "s", restart_s),
    ]


def _make(root: Path, count: int) -> list[Path]:
    """Create files that use each other; files with lower numbers are used more."""
    paths = []
    for number in range(count):
        path = root / f"package_{number // 50}" / f"module_{number}.py"
        path.parent.mkdir(exist_ok=True)
        used = number // 3
        lines = [f"from package_{used // 50}.module_{used} import Worker{used}", ""]
        for part in range(12):
            lines += [
                f"class Worker{number if part == 0 else f'{number}_{part}'}:",
                f"    def compute_total_{part}(self, amount: int) -> int:",
                f"        return Worker{used}().compute_total_{part}(amount) + {part}",
                "",
            ]
        path.write_text("\n".join(lines))
        paths.append(path)
    return paths


def _parse_s(paths: Sequence[Path]) -> float:
    """Return the time that one process needs to read the tags of the files."""
    questions = "".join(f'"{path}"\n' for path in paths)
    began = time.perf_counter()
    done = subprocess.run(
        program("agent.code.symbols.tags"),
        input=questions.encode(),
        capture_output=True,
        check=True,
    )
    assert done.stdout.count(b"\n") == len(paths), "a file without an answer"
    return time.perf_counter() - began


def _call(root: Path) -> CallContext:
    environment = ToolEnvironment("bench", root, root / "MEMORY.md", owner=True)
    return CallContext(ToolCall("1", "outline", {}, "{}"), environment, lambda *_: None)
