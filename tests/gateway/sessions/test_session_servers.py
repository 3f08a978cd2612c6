"""MCP servers that belong to one session, with the files that they keep."""

from pathlib import Path

import pytest

from agent.security.files.process_folder import remove_abandoned
from agent.settings import ToolSettings
from gateway.core.records import SessionServer
from gateway.sessions.session_servers import SessionServers


async def test_their_folder_is_in_use_until_the_session_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    servers = SessionServers(ToolSettings, lambda values: None, lambda: None)
    missing = SessionServer("far", "/no/such/program")
    async with servers.attach("cli:local:editor-1", [missing]) as failures:
        assert await anext(failures)
        # As every other process of Kore does at its start.
        remove_abandoned(tmp_path, "kore-mcp-")
        assert len(list(tmp_path.glob("kore-mcp-*"))) == 1
    assert list(tmp_path.glob("kore-mcp-*")) == []
