"""Options that plugins ask for at installation, and their dependencies."""

import json
from pathlib import Path
from typing import Any

import pytest

from gateway.config.installed_plugins import InstalledPlugins, secret_name
from gateway.plugins.errors import PluginError
from gateway.plugins.installation import PluginInstaller
from gateway.plugins.market import make_index
from gateway.plugins.options import PluginOption, read_options
from tests.gateway.cli.kore import kore

ASKED = {
    "host": {"type": "string", "title": "Host", "description": "d", "required": True},
    "api_token": {"type": "string", "title": "Token", "sensitive": True},
    "limit": {"type": "number", "default": 5, "min": 1, "max": 9},
    "loud": {"type": "boolean"},
}
SERVER = {
    "command": "python3",
    "args": ["${CLAUDE_PLUGIN_ROOT}/s.py", "--host=${user_config.host}", "${user_config.loud}"],
    "env": {"TOKEN": "${user_config.api_token}"},
}
SHELL = {"command": "/bin/bash", "args": ["-c", "curl ${user_config.host}"]}
HOOK = {"Stop": [{"hooks": [{"type": "command", "command": "echo ${user_config.host}"}]}]}


def write(folder: Path, name: str, **manifest: Any) -> Path:
    place = folder / name
    (place / ".claude-plugin").mkdir(parents=True)
    (place / "commands").mkdir()
    (place / "commands" / "go.md").write_text("Go")
    values = {"name": name, **manifest}
    (place / ".claude-plugin" / "plugin.json").write_text(json.dumps(values))
    return place


def asking(folder: Path) -> Path:
    servers = {"s": SERVER, "sh": SHELL}
    return write(folder, "asks", userConfig=ASKED, mcpServers=servers, hooks=HOOK)


ANSWERS = {
    "CLAUDE_PLUGIN_OPTION_HOST": "x.org; evil",
    "CLAUDE_PLUGIN_OPTION_API_TOKEN": "sesame-open-5",
    "CLAUDE_PLUGIN_OPTION_LOUD": "yes",
}


def test_answers_reach_servers_and_secrets_reach_the_secret_store(tmp_path: Path) -> None:
    home, place = tmp_path / "kore", asking(tmp_path)
    refused = kore("plugin", "install", place, "--yes", home=home)
    assert refused.returncode == 1
    assert "asks for: host, api_token (secret), limit, loud" in refused.stdout
    assert "the plugin needs a value for host" in refused.stderr
    assert not (home / "plugins" / "installed.json").exists()
    done = kore("plugin", "install", place, "--yes", home=home, environ=ANSWERS)
    assert done.returncode == 0, done.stderr
    stored = (home / "plugins" / "installed.json").read_text()
    assert "sesame" not in stored + done.stdout + done.stderr
    name = secret_name("asks", "api_token")
    assert json.loads((home / "secrets.json").read_text()) == {name: "sesame-open-5"}
    assert (home / "secrets.json").stat().st_mode & 0o077 == 0
    plugins = InstalledPlugins(home / "plugins")
    servers = plugins.servers()
    server, shell = servers["plugin_asks_s"], servers["plugin_asks_sh"]
    assert server["args"][1:] == ["--host=x.org; evil", "true"]
    assert server["env"]["TOKEN"] == "sesame-open-5"
    assert server["env"]["CLAUDE_PLUGIN_OPTION_LIMIT"] == "5"
    # Answers never become part of a shell command; the shell reads them from its variables.
    assert shell["args"] == SHELL["args"]
    assert shell["env"]["CLAUDE_PLUGIN_OPTION_HOST"] == "x.org; evil"
    (hooks,) = plugins.hooks()
    assert hooks.hooks["Stop"][0].hooks[0].command == "echo ${user_config.host}"
    assert hooks.variables["CLAUDE_PLUGIN_OPTION_HOST"] == "x.org; evil"
    assert "sesame-open-5" not in hooks.variables.values()
    shown = json.loads(kore("plugin", "show", "asks", "--json", home=home).stdout)
    assert shown["options"]["api_token"] == "***"


def test_update_keeps_the_answers_and_removal_deletes_them(tmp_path: Path) -> None:
    home, place = tmp_path / "kore", asking(tmp_path)
    kore("plugin", "install", place, "--yes", home=home, environ=ANSWERS)
    (place / "commands" / "go.md").write_text("Go on")
    done = kore("plugin", "update", "asks", "--yes", home=home)
    assert done.returncode == 0, done.stderr
    server = InstalledPlugins(home / "plugins").servers()["plugin_asks_s"]
    assert server["env"]["TOKEN"] == "sesame-open-5"
    assert kore("plugin", "remove", "asks", home=home).returncode == 0
    assert json.loads((home / "secrets.json").read_text()) == {}


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ([1], "userConfig: expected an object"),
        ({"a": 1}, r"userConfig\.a: expected an object"),
        ({"a-b": {}}, "not an option name"),
        ({"x;rm": {}}, "not an option name"),
        ({"a": {"type": "list"}}, "there is no type 'list'"),
    ],
)
def test_invalid_questions_are_rejected(value: Any, words: str) -> None:
    with pytest.raises(PluginError, match=words):
        read_options(value)


@pytest.mark.parametrize(
    ("option", "text", "expected"),
    [
        (PluginOption("a"), "x y", "x y"),
        (PluginOption("a", "number"), "5", 5),
        (PluginOption("a", "number"), "0.5", 0.5),
        (PluginOption("a", "number", most=4), "5", None),
        (PluginOption("a", "number"), "many", None),
        (PluginOption("a", "boolean"), "Yes", True),
        (PluginOption("a", "boolean"), "perhaps", None),
        (PluginOption("a"), "x\ny", None),
        (PluginOption("a", "directory"), "/a/b", "/a/b"),
    ],
)
def test_answer_has_its_declared_type(option: PluginOption, text: str, expected: object) -> None:
    if expected is None:
        with pytest.raises(PluginError):
            option.value_of(text)
    else:
        assert option.value_of(text) == expected


def test_plugins_never_share_a_secret() -> None:
    names = {
        secret_name(*pair) for pair in (("a-b", "c"), ("a_b", "c"), ("a", "b_c"), ("a_b_c", ""))
    }
    assert len(names) == 4


def test_plugin_dependencies_are_installed_first(tmp_path: Path) -> None:
    folder, home = tmp_path / "market", tmp_path / "kore"
    write(folder, "top", dependencies=["middle", {"name": "base", "version": "~1"}])
    write(folder, "middle", dependencies=["base", "top"])
    write(folder, "base")
    write(folder, "lost", dependencies=["nowhere"])
    make_index(folder, "mine")
    kore("market", "add", folder, home=home)
    lost = kore("plugin", "install", "lost", "--yes", home=home)
    assert lost.returncode == 1
    assert "lost needs nowhere: no market has a plugin" in lost.stderr
    done = kore("plugin", "install", "top", "--yes", home=home)
    assert done.returncode == 0, done.stderr
    lines = [line for line in done.stdout.splitlines() if line.startswith("installed")]
    assert lines == ["installed base", "installed middle", "installed top"]
    assert "needs: middle, base" in done.stdout
    installer = PluginInstaller(home / "plugins")
    with pytest.raises(PluginError, match="base is needed by middle, top"):
        installer.change("base", is_enabled=False)
    with pytest.raises(PluginError, match="base is needed by middle, top"):
        installer.remove("base")
    assert installer.find("base").is_enabled


def test_options_of_dependencies_are_requested(tmp_path: Path) -> None:
    folder, home = tmp_path / "market", tmp_path / "kore"
    write(folder, "top", dependencies=["base"])
    write(folder, "base")
    make_index(folder, "mine")
    kore("market", "add", folder, home=home)
    refused = kore("plugin", "install", "top", home=home)
    assert refused.returncode == 1
    assert "top needs base:" in refused.stderr
    assert InstalledPlugins(home / "plugins").load() == {}
