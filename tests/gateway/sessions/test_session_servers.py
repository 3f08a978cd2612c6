"""MCP servers of a single session."""

import tempfile
from pathlib import Path

import pytest

from agent.security.files.private_folder import remove_abandoned
from agent.settings import ToolSettings
from gateway.core.records import SessionServer
from gateway.sessions.editor_hub import SessionServers


async def test_homes_of_servers_survive_the_start_of_another_kore(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    servers = SessionServers(ToolSettings, lambda secrets: None, lambda: None)
    async with servers.attach("lane", (SessionServer("short", "/bin/false"),)) as failures:
        assert "short" in "".join(await anext(failures))
        (home,) = tmp_path.glob("kore-mcp-*")
        remove_abandoned(tmp_path, "kore-mcp-")
        assert home.is_dir()
    assert not home.exists()
