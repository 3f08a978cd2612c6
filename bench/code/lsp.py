"""Benchmark of language servers: start, and time from an edit to its diagnostics.

The baseline is a bare client of the same server. Servers that are not installed are left out.
"""

import json
import shutil
import statistics
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from agent.code.lsp.known_servers import KNOWN_SERVERS
from agent.code.lsp.programs import find_server_program
from agent.code.services import CodeServices
from agent.security.sandbox.environment import find_toolchains
from agent.security.sandbox.selector import SandboxOptions, select_sandbox
from agent.settings import LspServerSettings, LspSettings, ToolSettings
from agent.tools.base import CallContext, ToolEnvironment
from agent.tools.built_in import RegistryDefaults
from agent.tools.files.edit import EditFile
from agent.types import ToolCall
from bench.code.language_client import BareLanguageServer
from bench.figure import Figure, sampled
from bench.process import ROOT

STARTS = 5
EDITS = 60
_MOST_S = 60.0
_PROJECTS = ROOT / "tests" / "contracts" / "lsp_projects"
# Project in a language, a file in it, and a part of the file with a replacement that breaks it.
_CASES = {
    ".py": ("python", "shop/basket.py", "return amount if label else 0", "return amonut"),
    ".ts": ("typescript", "src/basket.ts", "label ? amount : 0", "amonut"),
    ".c": ("c", "basket.c", "return sum;", "return som;"),
}


async def measure(command: Sequence[str]) -> list[Figure]:
    figures: list[Figure] = []
    for server in KNOWN_SERVERS:
        case = next((case for suffix, case in _CASES.items() if suffix in server.extensions), None)
        program = find_server_program(server, ())
        if case is not None and program is not None:
            figures += await _figures(server, program, case)
    return figures


async def _figures(
    server: LspServerSettings, program: str, case: tuple[str, str, str, str]
) -> list[Figure]:
    project, name, old, new = case
    starts, bare_starts = [], []
    with tempfile.TemporaryDirectory(prefix="kore-bench-") as top:
        folder = Path(shutil.copytree(_PROJECTS / project, Path(top) / project))
        path = folder / name
        argv = (program, *server.command[1:])
        for _ in range(STARTS):
            began = time.perf_counter()
            bare = BareLanguageServer(argv, folder, project)
            bare_starts.append((time.perf_counter() - began) * 1000)
            bare.close()
            starts.append(await _start_ms(server, folder, path))
        bare_edits = _bare_edits(BareLanguageServer(argv, folder, project), path, old, new)
        edits = await _edits(server, folder, path, old, new)
    least = statistics.median(bare_edits)
    p95 = statistics.quantiles(bare_edits, n=20)[-1]
    return [
        sampled(f"{server.name}: start", "ms", starts, bare=statistics.median(bare_starts)),
        sampled(
            f"{server.name}: edit, checked and written",
            "ms",
            edits,
            bare=least,
            note=f"bare p95 {p95:.0f} ms",
        ),
    ]


def _services(
    server: LspServerSettings, folder: Path
) -> tuple[CodeServices, RegistryDefaults, ToolSettings]:
    without = frozenset(other.name for other in KNOWN_SERVERS if other.name != server.name)
    (home := folder.parent / "home").mkdir(exist_ok=True)
    options = SandboxOptions(toolchains=find_toolchains(Path.home()))
    tools = ToolSettings(sandbox=select_sandbox(options, home).sandbox)
    defaults = RegistryDefaults()
    settings = LspSettings(without=without)
    return CodeServices(settings, tools, defaults, (folder,)), defaults, tools


async def _start_ms(server: LspServerSettings, folder: Path, path: Path) -> float:
    """Return the time from the first request to the diagnostics, in the sandbox."""

    async def nothing(session: object) -> None:
        return None

    services, _, _ = _services(server, folder)
    try:
        language_server = await services.servers.find(path, folder)
        assert language_server is not None
        began = time.perf_counter()
        await language_server.ask("its start", nothing, 60)
        return (time.perf_counter() - began) * 1000
    finally:
        await services.aclose()


def _bare_edits(bare: BareLanguageServer, path: Path, old: str, new: str) -> list[float]:
    text = path.read_text(encoding="utf-8")
    result = []
    # Without the guard, a silent server would block the benchmark forever.
    guard = threading.Timer(_MOST_S, bare.close)
    guard.start()
    try:
        for number in range(EDITS + 4):
            after = text.replace(old, new) if number % 2 else text
            began = time.perf_counter()
            bare.diagnose(path, after)
            result.append((time.perf_counter() - began) * 1000)
    finally:
        guard.cancel()
        bare.close()
    return result[4:]


async def _edits(
    server: LspServerSettings, folder: Path, path: Path, old: str, new: str
) -> list[float]:
    """Return the durations of `edit_file` calls, including the diagnostics in the result."""
    services, defaults, tools = _services(server, folder)
    outcome = []
    try:
        tool = EditFile(tools, defaults.views, defaults.drafts)
        environment = ToolEnvironment("s", folder, folder / "MEMORY.md", owner=True)
        for number in range(EDITS + 4):
            pair = (old, new) if number % 2 == 0 else (new, old)
            args = dict(zip(("old_string", "new_string"), pair, strict=True), path=str(path))
            call = ToolCall("1", tool.name, args, json.dumps(args))
            context = CallContext(call, environment, lambda text, stream: None)
            began = time.perf_counter()
            result = await tool.run(args, context)
            outcome.append((time.perf_counter() - began) * 1000)
            if number >= 4:
                assert (" error: " in result.for_model) == (number % 2 == 0), result.for_model
    finally:
        await services.aclose()
    return outcome[4:]
