"""Processes of `kore serve` and `kore gateway` with a fake model."""

import asyncio
import json
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from tests import fork_server
from tests.fakes.model import ModelServer

KEY = "sk-server-key"


class Machine:
    """Home directory with a configuration, in which Kore processes run."""

    def __init__(self, folder: Path, model: ModelServer, module: str = "gateway") -> None:
        self.home, self.model, self.module = folder / "home", model, module
        self.home.mkdir()
        entry = {"model_name": "default", "model": "openai/fake", "api_base": f"{model.url}/v1"}
        config = {"model_list": [{**entry, "api_key": KEY}], "http": {"port": 0}}
        (self.home / "config.json").write_text(json.dumps(config))

    @asynccontextmanager
    async def run(
        self, *words: str
    ) -> AsyncIterator[asyncio.subprocess.Process | fork_server.PipedProcess]:
        """Run `kore WORDS` and kill it at the end of the block."""
        environ = {"PATH": os.environ["PATH"], "HOME": str(self.home), "KORE_HOME": str(self.home)}
        process = await self._start(words, environ)
        try:
            yield process
        finally:
            with suppress(ProcessLookupError):
                process.send_signal(signal.SIGKILL)
            await process.communicate()

    async def _start(
        self, words: Sequence[str], environ: Mapping[str, str]
    ) -> asyncio.subprocess.Process | fork_server.PipedProcess:
        if self.module == "gateway":
            return await fork_server.start_piped(words, cwd=Path.cwd(), env=environ)
        return await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", self.module, *words),
            env=environ,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
        )

    @asynccontextmanager
    async def serving(
        self, *words: str
    ) -> AsyncIterator[asyncio.subprocess.Process | fork_server.PipedProcess]:
        """Run `kore serve WORDS` and start the block once it serves."""
        async with self.run("serve", *words) as process:
            assert process.stderr is not None
            async with asyncio.timeout(60):
                line = await process.stderr.readline()
            assert b"serves at" in line, line + await process.stderr.read()
            yield process


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port
