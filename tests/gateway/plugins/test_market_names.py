"""Names of markets and plugins, which no other source can take over."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from gateway.plugins.errors import PluginError
from gateway.plugins.installation import PluginInstaller
from gateway.plugins.manifest import read_manifest
from gateway.plugins.market import Markets
from tests.gateway.cli.kore import kore


def market(folder: Path, name: str, **plugin: Any) -> dict[str, str]:
    """Make a market as an archive would contain it: a folder with its index."""
    (folder / ".claude-plugin").mkdir(parents=True, exist_ok=True)
    index = {"name": name, "plugins": [{"name": "p", "source": "./p", **plugin}]}
    (folder / ".claude-plugin" / "marketplace.json").write_text(json.dumps(index))
    (folder / "p" / "commands").mkdir(parents=True, exist_ok=True)
    (folder / "p" / "commands" / "go.md").write_text("Go")
    return {"source": "folder", "path": str(folder)}


def archive(folder: Path, name: str, **plugin: Any) -> dict[str, str]:
    market(folder, name, **plugin)
    path = shutil.make_archive(str(folder), "zip", folder)
    return {"source": "archive", "url": path}


def test_market_cannot_replace_another(tmp_path: Path) -> None:
    markets = Markets(tmp_path / "plugins")
    markets.add(archive(tmp_path / "good", "official", description="good"))
    with pytest.raises(PluginError, match="there is a market 'official' already"):
        markets.add(archive(tmp_path / "evil", "official", description="evil"))
    assert [item.description for item in markets.search("")] == ["good"]
    # The same source again is the same market.
    markets.add(archive(tmp_path / "good", "official", description="better"))
    assert [item.description for item in markets.search("")] == ["better"]


def test_market_cannot_take_another_name_at_an_update(tmp_path: Path) -> None:
    markets = Markets(tmp_path / "plugins")
    markets.add(archive(tmp_path / "good", "official", description="good"))
    markets.add(archive(tmp_path / "evil", "small"))
    for name in ("official", "new"):
        archive(tmp_path / "evil", name, description="evil")
        with pytest.raises(PluginError, match=f"the market small now calls itself '{name}'"):
            markets.update("small")
    assert markets.find("p@official")[0].description == "good"
    assert sorted(item.name for item in markets.load()) == ["official", "small"]


def plugin(folder: Path, name: str, text: str = "Go") -> Path:
    (folder / ".claude-plugin").mkdir(parents=True, exist_ok=True)
    (folder / ".claude-plugin" / "plugin.json").write_text(json.dumps({"name": name}))
    (folder / "commands").mkdir(exist_ok=True)
    (folder / "commands" / "go.md").write_text(text)
    return folder


def test_plugin_cannot_replace_one_from_another_source(tmp_path: Path) -> None:
    home = tmp_path / "kore"
    assert kore("plugin", "install", plugin(tmp_path / "a", "p"), "-y", home=home).returncode == 0
    before = PluginInstaller(home / "plugins").find("p")
    evil = plugin(tmp_path / "b", "p", "Evil")
    done = kore("plugin", "install", evil, "-y", home=home)
    assert done.returncode == 1
    assert "kore plugin remove p" in done.stderr
    assert PluginInstaller(home / "plugins").find("p") == before


def test_plugin_cannot_take_another_name_at_an_update(tmp_path: Path) -> None:
    home = tmp_path / "kore"
    for folder, name in (("a", "good"), ("b", "small")):
        kore("plugin", "install", plugin(tmp_path / folder, name), "-y", home=home)
    plugin(tmp_path / "b", "good", "Evil")
    done = kore("plugin", "update", "small", "-y", home=home)
    assert done.returncode == 1
    assert "the plugin small now calls itself 'good'" in done.stderr
    installed = PluginInstaller(home / "plugins")
    assert installed.find("good").source["path"] == str(tmp_path / "a")


def test_installation_matches_the_review(tmp_path: Path) -> None:
    installer = PluginInstaller(tmp_path / "plugins")
    source = {"source": "folder", "path": str(plugin(tmp_path / "a", "p"))}
    with installer.fetched(source) as review:
        (review.folder / "commands" / "go.md").write_text("Evil")
        with pytest.raises(PluginError, match="changed"):
            installer.install(review)
    assert installer.installed.load() == {}


@pytest.mark.parametrize("name", ["x" * 300, "ü" * 100])
def test_name_invalid_for_a_folder_is_rejected(tmp_path: Path, name: str) -> None:
    with pytest.raises(PluginError, match="plugin name"):
        read_manifest(plugin(tmp_path / "a", name))
    with pytest.raises(PluginError, match="the market has no name"):
        Markets(tmp_path / "plugins").add(archive(tmp_path / "m", name))


def test_server_environment_and_headers_are_shown(tmp_path: Path) -> None:
    folder = plugin(tmp_path / "a", "p")
    server = {"command": "node", "args": ["a.js"], "env": {"NODE_OPTIONS": "--require ./b.js"}}
    other = {"url": "https://x.example", "headers": {"X-To": "y"}}
    (folder / ".mcp.json").write_text(json.dumps({"s": server, "t": other}))
    shown = kore("plugin", "validate", folder, home=tmp_path / "kore").stdout
    assert "s = NODE_OPTIONS='--require ./b.js' node a.js" in shown
    assert "t = https://x.example X-To: y" in shown
