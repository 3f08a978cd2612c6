"""`python -m bench [PART …]`: measure, print a table, save it as JSON in bench/results/."""

import argparse
import asyncio
import json
import os
import platform
import statistics
import subprocess
import sys
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path

from bench.figure import Figure, table
from bench.process import ROOT, kore_command

PARTS = (
    "startup",
    "oneshot",
    "idle",
    "turn",
    "way",
    "library",
    "calls",
    "history",
    "long",
    "large",
    "burst",
    "gate",
    "sessions",
    "tokens",
    "journal",
    "fanout",
    "scale",
    "policy",
    "agents",
    "sandbox",
    "daily",
    "undo",
    "mcp",
    "lsp",
    "watch",
    "reads",
    "map",
    "tree",
    "clients",
    "tui",
    "web",
)
# In bench/code.
CODE_PARTS = ("watch", "reads", "lsp", "map", "tree")
# In bench/faces.
FACE_PARTS = ("clients", "tui", "web")
# In bench/workers.
WORKER_PARTS = ("fanout", "scale")
# Duration of `import aiohttp` on the machine for which the goals were set.
AIOHTTP_MS = 160.0
RESULTS = Path(__file__).parent / "results"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--program", metavar="FILE", help="the kore to measure")
    parser.add_argument("--strict", action="store_true", help="exit with 1 when a goal is missed")
    options = parser.parse_args()
    unknown = set(options.parts) - set(PARTS)
    if unknown:
        parser.error(f"found {', '.join(sorted(unknown))}, expected some of {', '.join(PARTS)}")
    command = kore_command(options.program)
    facts, aiohttp_ms = _facts(command), _import_ms("aiohttp")
    facts["import aiohttp"] = f"{aiohttp_ms:.0f} ms"
    print("  ".join(f"{name}: {value}" for name, value in facts.items()), end="\n\n")
    figures: list[Figure] = []
    for part in options.parts or PARTS:
        print(f"measuring {part} …", file=sys.stderr, flush=True)
        measured = asyncio.run(import_module(module_of(part)).measure(command))
        figures += [figure.at_pace(aiohttp_ms / AIOHTTP_MS) for figure in measured]
    print(table(figures), flush=True)
    _keep(facts, figures)
    missed = any(figure.reached is False for figure in figures)
    return 1 if options.strict and missed else 0


def module_of(part: str) -> str:
    """Return the module of a part."""
    folders = {"code": CODE_PARTS, "faces": FACE_PARTS, "workers": WORKER_PARTS}
    folder = next((name for name, parts in folders.items() if part in parts), "parts")
    return f"bench.{folder}.{part}"


def _facts(command: list[str]) -> dict[str, str]:
    """Return the facts that a reader needs to compare two tables."""
    git = ["git", "-C", str(ROOT), "describe", "--always", "--dirty"]
    commit = subprocess.run(git, capture_output=True, text=True, check=False).stdout.strip()
    return {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": commit or "unknown",
        "python": platform.python_version(),
        "cores": str(os.cpu_count()),
        "import asyncio": f"{_import_ms('asyncio'):.0f} ms",
        "load": f"{os.getloadavg()[0]:.2f}",
        "program": " ".join(command),
    }


def _import_ms(module: str) -> float:
    """Return the duration of an import by a fresh Python, as a yardstick for the machine."""
    code = f"import time; t = time.perf_counter(); import {module}; print(time.perf_counter() - t)"
    results = []
    for _ in range(7):
        ran = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
        results.append(float(ran.stdout) * 1000)
    return statistics.median(results)


def _keep(facts: dict[str, str], figures: list[Figure]) -> None:
    RESULTS.mkdir(exist_ok=True)
    content = {**facts, "figures": [figure.to_json() for figure in figures]}
    file = RESULTS / f"{facts['at'][:19].replace(':', '')}.json"
    file.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
