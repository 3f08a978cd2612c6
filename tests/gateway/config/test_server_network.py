"""`network` of MCP servers: its entries, and who may grant them."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from agent.errors import ConfigError
from gateway.config.folder_trust import trust
from gateway.config.installed_plugins import InstalledPlugins
from gateway.config.sections import McpServer
from gateway.config.servers import plugin_servers
from tests.gateway.config.loading import load


def servers(*network: str) -> dict[str, Any]:
    return {"mcp_servers": {"s": {"command": "x", "network": network}}}


def test_entries_have_a_normal_form() -> None:
    target = os.path.realpath("/var/run")
    assert target != "/var/run", "a link of root on every distribution"
    network = ("*", "NAS.local:*", "localhost:8123", "unix:/var/run/docker.sock")
    server = McpServer(command="x", network=network)
    assert server.network == ("*", "nas.local:*", "127.0.0.1:8123", f"unix:{target}/docker.sock")


@pytest.mark.parametrize("entry", ["127.0.0.1:*", "10.0.0.0/8", "*:80", "unix:x"])
def test_other_entries_are_refused(entry: str) -> None:
    with pytest.raises(ValidationError, match="each port of this machine"):
        McpServer(command="x", network=(entry,))


def test_socket_is_reached_through_no_link_of_others(tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to("/run")
    with pytest.raises(ValidationError, match="each port of this machine"):
        McpServer(command="x", network=(f"unix:{link}/docker.sock",))


def test_project_grants_only_what_was_trusted(tmp_path: Path) -> None:
    """A changed list is not used before someone has trusted it again."""
    project = servers("127.0.0.1:8123")
    with pytest.raises(ConfigError, match="cannot set this"):
        load(tmp_path, project=project)
    file = tmp_path / "work" / ".kore" / "config.json"
    trust([file], tmp_path / "home")
    settings = load(tmp_path, project=project)
    assert settings.mcp_servers["s"].network == ("127.0.0.1:8123",)
    with pytest.raises(ConfigError, match="cannot set this"):
        load(tmp_path, project=servers("127.0.0.1:8123", "127.0.0.1:5432"))


def test_file_of_another_program_grants_nothing(tmp_path: Path) -> None:
    load(tmp_path)
    file = tmp_path / "work" / ".mcp.json"
    server = {"command": "x", "network": ["127.0.0.1:8123"]}
    file.write_text(json.dumps({"mcpServers": {"s": server}}))
    trust([file], tmp_path / "home")
    assert load(tmp_path).mcp_servers["s"].network == ("*",)


def test_plugin_grants_nothing(tmp_path: Path) -> None:
    row = {"name": "p", "version": "1", "description": "", "source": {}, "digest": "d"}
    described = {"s": {"command": "x", "network": ["127.0.0.1:8123"]}}
    plugins = {"version": 1, "plugins": [{**row, "folder": "cache/p", "servers": described}]}
    (tmp_path / "installed.json").write_text(json.dumps(plugins))
    (server,) = plugin_servers(InstalledPlugins(tmp_path)).values()
    assert server.network == ("*",)
