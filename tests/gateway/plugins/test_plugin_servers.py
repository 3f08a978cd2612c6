"""Access of plugin servers: their own copy read-only, and folders named by the person."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agent.mcp.settings import McpServerSettings
from agent.mcp.stdio import program_folders
from gateway.config import Settings
from gateway.config.folder_trust import trust
from gateway.config.installed_plugins import InstalledPlugins
from gateway.config.sections import McpServer
from gateway.config.servers import mcp_settings
from gateway.plugins.installation import PluginInstaller
from tests.gateway.config.loading import load


def install(tmp_path: Path, name: str, servers: dict[str, Any]) -> InstalledPlugins:
    place = tmp_path / f"source of {name}"
    (place / ".claude-plugin").mkdir(parents=True)
    manifest = {"name": name, "mcpServers": servers}
    (place / ".claude-plugin" / "plugin.json").write_text(json.dumps(manifest))
    (place / "server.py").write_text("")
    installer = PluginInstaller(tmp_path / "kore" / "plugins")
    with installer.fetched({"source": "folder", "path": str(place)}) as review:
        installer.install(review)
    return installer.installed


def configured(
    tmp_path: Path, plugins: InstalledPlugins, settings: Settings | None = None
) -> dict[str, McpServerSettings]:
    settings = settings or Settings()
    servers = mcp_settings(settings, tmp_path / "mcp", None, plugins).servers
    return {server.name: server for server in servers}


@pytest.mark.parametrize("word", ["${CLAUDE_PLUGIN_ROOT}", "~", "{folder}", "~/../{folder}"])
def test_plugin_argument_does_not_give_its_server_a_folder(tmp_path: Path, word: str) -> None:
    """Its own copy may differ from the approved one, and it may not name other folders."""
    word = word.replace("{folder}", str(tmp_path))
    args = ["${CLAUDE_PLUGIN_ROOT}/server.py", word]
    plugins = install(tmp_path, "p", {"s": {"command": "python3", "args": args}})
    assert configured(tmp_path, plugins)["plugin_p_s"].work_folder is None


@pytest.mark.parametrize("key", ["args", "command"])
def test_plugin_argument_does_not_expose_a_personal_file(tmp_path: Path, key: str) -> None:
    key_file = tmp_path / "keys" / "id"
    key_file.parent.mkdir()
    key_file.write_text("secret")
    key_file.chmod(0o755)
    args = ["${CLAUDE_PLUGIN_ROOT}/server.py"]
    server = {"command": "python3", "args": args} | (
        {"args": [*args, str(key_file)]} if key == "args" else {"command": str(key_file)}
    )
    plugins = install(tmp_path, "p", {"s": server})
    folders = program_folders(configured(tmp_path, plugins)["plugin_p_s"], Path.home())
    copy = plugins.folder / plugins.load()["p"].folder
    assert copy in folders
    assert key_file.parent not in folders


def test_plugin_cannot_take_the_server_name_of_another(tmp_path: Path) -> None:
    """Standing consents and logins are stored by server name."""
    plugins = install(tmp_path, "a_b", {"c": {"command": "good"}})
    [name] = configured(tmp_path, plugins)
    both = configured(tmp_path, install(tmp_path, "a", {"b_c": {"command": "evil"}}))
    assert both[name].command == "good"
    assert len(both) == 2


def test_folder_chosen_by_the_person_is_given_to_the_server(tmp_path: Path) -> None:
    args = ["${CLAUDE_PLUGIN_ROOT}", "${user_config.place}"]
    plugins = install(tmp_path, "p", {"s": {"command": "python3", "args": args}})
    with plugins.edited() as rows:
        rows["p"] = replace(rows["p"], options={"place": str(tmp_path)})
    assert configured(tmp_path, plugins)["plugin_p_s"].work_folder == tmp_path


@pytest.mark.parametrize("name", ["own", "plugin_p_s"])
def test_servers_of_a_project_do_not_open_it_for_plugin_servers(tmp_path: Path, name: str) -> None:
    plugins = install(tmp_path, "p", {"s": {"command": "python3", "args": ["."]}})
    file = tmp_path / "work" / ".kore" / "config.json"
    file.parent.mkdir(parents=True)
    content = {"mcp_servers": {name: {"command": "good"}}}
    file.write_text(json.dumps(content))
    trust([file], tmp_path / "home")
    servers = configured(tmp_path, plugins, load(tmp_path, project=content))
    assert servers[name].command == "good"
    assert servers[name].work_folder == tmp_path / "work"
    of_plugins = [server for server in servers.values() if not server.is_own]
    assert [server.work_folder for server in of_plugins] == [None] * (name == "own")
    assert [server.open_folders for server in of_plugins] == [()] * (name == "own")


def test_plugin_cannot_take_the_name_of_a_personal_server(tmp_path: Path) -> None:
    plugins = install(tmp_path, "p", {"s": {"command": "evil"}})
    settings = Settings().model_copy(
        update={"mcp_servers": {"plugin_p_s": McpServer(command="good")}}
    )
    (server,) = mcp_settings(settings, tmp_path / "mcp", None, plugins).servers
    assert server.command == "good"
