"""Renewal of a login that several processes share."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from agent.mcp.login_file import LoginFile
from agent.mcp.revocation import end_login
from tests import fork_server
from tests.agent.mcp.login_server import log_in, servers
from tests.fakes.oauth_mcp import OauthMcpServer

pytest.importorskip("mcp", reason="needs the extra mcp")

ROOT = Path(__file__).parents[3]
# Calls the server's tool for each input line.
PROGRAM = """
import asyncio, sys
from pathlib import Path
from agent.errors import ToolError
from tests.agent.mcp.login_server import servers, whoami

class Server:
    port = int(sys.argv[1])

async def main():
    loop = asyncio.get_running_loop()
    async with servers(Server(), Path(sys.argv[2])) as running:
        while await loop.run_in_executor(None, sys.stdin.readline):
            try:
                print(await whoami(running), flush=True)
            except ToolError as exc:
                print(exc, flush=True)

asyncio.run(main())
"""


@asynccontextmanager
async def callers(
    server: OauthMcpServer, folder: Path, count: int
) -> AsyncIterator[list[fork_server.TalkingProcess]]:
    processes = [
        await fork_server.start_talking(
            ["python", "-c", PROGRAM, str(server.port), folder],
            cwd=ROOT,
            env={"PATH": os.environ["PATH"]},
            stderr=2,
            limit=2**16,
        )
        for _ in range(count)
    ]
    try:
        yield processes
    finally:
        for process in processes:
            process.kill()
            await process.wait()


async def call_at_once(processes: list[fork_server.TalkingProcess]) -> list[str]:
    for process in processes:
        process.stdin.write(b"go\n")
    async with asyncio.timeout(60):
        return [(await process.stdout.readline()).decode() for process in processes]


async def test_rejected_token_is_renewed_once_for_all_processes(tmp_path: Path) -> None:
    async with OauthMcpServer() as server:
        server.revokes_on_reuse = True
        await log_in(server, tmp_path)
        async with callers(server, tmp_path, 3) as processes:
            assert all(line.startswith("you") for line in await call_at_once(processes))
            for _ in range(3):
                server.grants.clear()
                server.access.clear()
                # The renewal waits until the token of each process was rejected.
                server.refused, server.renews_after = 0, len(processes)
                assert all(line.startswith("you") for line in await call_at_once(processes))
                assert server.grants == ["refresh_token"]


async def test_expired_token_is_renewed_once_for_all_processes(tmp_path: Path) -> None:
    async with OauthMcpServer() as server:
        server.revokes_on_reuse = True
        server.expires_in = -10
        await log_in(server, tmp_path)
        server.expires_in = 3600
        server.grants.clear()
        async with callers(server, tmp_path, 3) as processes:
            assert all(line.startswith("you") for line in await call_at_once(processes))
        assert server.grants == ["refresh_token"]


async def test_concurrent_calls_renew_once(tmp_path: Path) -> None:
    async with OauthMcpServer() as server:
        server.revokes_on_reuse = True
        await log_in(server, tmp_path)
        async with servers(server, tmp_path) as first, servers(server, tmp_path) as second:
            await asyncio.gather(first.refresh("g"), second.refresh("g"))
            server.access.clear()
            server.grants.clear()
            await asyncio.gather(
                *(source.refresh("g") for source in (first, second, first, second))
            )
        assert server.grants == ["refresh_token"]


async def test_logout_waits_for_a_renewal(tmp_path: Path) -> None:
    async with OauthMcpServer() as server:
        await log_in(server, tmp_path)
        (path,) = tmp_path.glob("*/login")
        file = LoginFile(path, f"http://127.0.0.1:{server.port}/mcp")
        async with servers(server, tmp_path) as running:
            await running.refresh("g")
            server.access.clear()
            server.refused, server.renews_after = 0, 2
            renewing = asyncio.create_task(running.refresh("g"))
            while server.grants[-1] != "refresh_token":
                await asyncio.sleep(0.01)
            ending = asyncio.create_task(end_login(file))
            # A request without a token makes the server demand one.
            async with servers(server, tmp_path / "other") as stranger:
                with pytest.raises(Exception, match="requires a login"):
                    await stranger.refresh("g")
            await renewing
            assert (await ending)[0]
            assert file.read() == {}


async def test_temporary_renewal_failure_does_not_end_the_login(
    tmp_path: Path,
) -> None:
    async with OauthMcpServer() as server:
        await log_in(server, tmp_path)
        async with servers(server, tmp_path) as running:
            await running.refresh("g")
            server.access.clear()
            tokens, server.refresh = server.refresh, set()
            with pytest.raises(Exception, match="requires a login"):
                await running.refresh("g")
            server.refresh = tokens
            await running.refresh("g")
