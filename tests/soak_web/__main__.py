"""`python -m tests.soak_web`: an hour of everything that a person does on the web page."""

import argparse
import asyncio
import sys
import tempfile
from pathlib import Path

from tests.gateway.server.browser import CHROMIUM
from tests.soak_web.soak import Report, open_soak


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.soak_web", description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    if CHROMIUM is None:
        parser.error("chromium is not installed")
    with tempfile.TemporaryDirectory(prefix="kore-soak-") as folder:
        report = asyncio.run(_run(Path(folder), options.minutes * 60, options.seed))
    print(report.in_words())
    return 1 if report.faults else 0


async def _run(folder: Path, seconds: float, seed: int) -> Report:
    async with open_soak(folder, seed) as soak:
        return await soak.run(seconds)


if __name__ == "__main__":
    sys.exit(main())
