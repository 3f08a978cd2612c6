"""Helpers that run `kore agent` in a folder and trust the folder."""

import asyncio
import json
import os
from pathlib import Path

from tests import postgres_server
from tests.fork_server import start_piped
from tests.gateway.cli.chat.long_task_scene import Place


def trust(place: Place, folder: Path) -> None:
    config = place.home / "config.json"
    trusted = {"security": {"trusted_folders": [str(folder)]}}
    config.write_text(json.dumps(json.loads(config.read_text()) | trusted))


async def run(place: Place, folder: Path, *words: str) -> tuple[int, str]:
    """Run `kore agent -y -m look` in the folder, and return its exit code and its stderr."""
    own = {"KORE_HOME": str(place.home), **postgres_server.environ_of(place.home)}
    environ = {"PATH": os.environ["PATH"], "HOME": str(place.home)} | own
    process = await start_piped(("agent", "-y", "-m", "look", *words), cwd=folder, env=environ)
    async with asyncio.timeout(120):
        _, err = await process.communicate()
    assert process.returncode is not None
    return process.returncode, err.decode()
