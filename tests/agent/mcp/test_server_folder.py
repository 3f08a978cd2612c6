"""Replacement of an MCP server's folder while Kore is running."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from agent.mcp.servers import McpServers
from agent.mcp.settings import McpServerSettings, McpSettings
from agent.security.sandbox.base import Sandbox
from agent.security.sandbox.unconfined import Unconfined
from agent.settings import ToolSettings
from tests.agent.mcp.serving import SERVER
from tests.agent.tools.bubblewrap import installed_bubblewrap

pytest.importorskip("mcp", reason="needs the extra mcp")
REFUSAL = "is no longer the folder that was chosen"


def put_link(folder: Path, target: Path) -> None:
    folder.rename(folder.with_name("moved"))
    folder.symlink_to(target)


def put_folder(folder: Path, target: Path) -> None:
    folder.rename(folder.with_name("moved"))
    target.rename(folder)


def servers_in(tmp_path: Path, folder: Path, sandbox: Sandbox, *, named: bool) -> McpServers:
    args = ("-B", str(SERVER), *([] if named else [str(folder)]))
    server = McpServerSettings(
        "s", "/usr/bin/python3", args, folder=folder if named else None, start_timeout_s=20
    )
    return McpServers(McpSettings((server,), tmp_path / "mcp"), ToolSettings(sandbox=sandbox))


@pytest.mark.parametrize("is_named", [True, False], ids=["setting", "argument"])
@pytest.mark.parametrize("is_confined", [True, False], ids=["bubblewrap", "none"])
@pytest.mark.parametrize("put", [put_link, put_folder])
async def test_server_does_not_start_in_a_replaced_folder(
    tmp_path: Path, put: Callable[[Path, Path], None], is_confined: bool, is_named: bool
) -> None:
    folder, elsewhere = tmp_path / "project" / "data", tmp_path / "elsewhere"
    folder.mkdir(parents=True)
    elsewhere.mkdir()
    sandbox = installed_bubblewrap() if is_confined else Unconfined()
    servers = servers_in(tmp_path, folder, sandbox, named=is_named)
    try:
        put(folder, elsewhere)
        (notice,) = await servers.load()
        assert REFUSAL in notice
        assert servers.connection("s").state == "failed"
        assert "stand-in server begins" not in (servers.folder_of("s") / "log").read_text()
    finally:
        await asyncio.shield(servers.aclose())
