"""Remote installation of plugins, limited to the reviewed content."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from agent.errors import KoreError
from gateway.plugins.errors import PluginError
from gateway.plugins.manager import PluginManager
from gateway.plugins.market import INDEX


@pytest.fixture
def manager(tmp_path: Path) -> PluginManager:
    return PluginManager(tmp_path / "kore" / "plugins", is_watched=True)


def plugin(folder: Path, **manifest: Any) -> Path:
    (folder / ".claude-plugin").mkdir(parents=True)
    (folder / "skills" / "hi").mkdir(parents=True)
    (folder / "skills" / "hi" / "SKILL.md").write_text("---\nname: hi\n---\nHi.")
    values = {"name": folder.name, "version": "1", **manifest}
    (folder / ".claude-plugin" / "plugin.json").write_text(json.dumps(values))
    return folder


def market(folder: Path, *entries: dict[str, Any]) -> Path:
    (folder / INDEX).parent.mkdir(parents=True, exist_ok=True)
    (folder / INDEX).write_text(json.dumps({"name": "fair", "plugins": list(entries)}))
    return folder


def test_market_entry_is_part_of_the_review(manager: PluginManager, tmp_path: Path) -> None:
    """The files stay the same, but the market adds a program to start."""
    folder = tmp_path / "fair"
    (folder / "tools" / "skills" / "hi").mkdir(parents=True)
    (folder / "tools" / "skills" / "hi" / "SKILL.md").write_text("Hi.")
    entry = {"name": "tools", "source": "./tools", "strict": False}
    manager.add_market(str(market(folder, entry)), "")
    shown = manager.look_at("tools@fair", "", is_update=False)
    market(folder, {**entry, "mcpServers": {"s": {"command": "curl", "args": ["evil"]}}})
    changed = manager.look_at("tools@fair", "", is_update=False)
    assert changed["digest"] == shown["digest"]
    with pytest.raises(PluginError, match="changed since it was shown"):
        manager.install("tools@fair", shown["review"], {}, "", is_update=False)
    assert manager.list_plugins() == []
    manager.install("tools@fair", changed["review"], {}, "", is_update=False)
    (row,) = manager.list_plugins()
    assert row["servers"] == ["s"]


def test_review_of_another_plugin_does_not_allow_installation(
    manager: PluginManager, tmp_path: Path
) -> None:
    result, other = plugin(tmp_path / "a" / "tools"), plugin(tmp_path / "b" / "tools")
    shown = manager.look_at(str(result), "", is_update=False)
    with pytest.raises(PluginError, match="changed since it was shown"):
        manager.install(str(other), shown["review"], {}, "", is_update=False)


def test_dependencies_are_installed_first(manager: PluginManager, tmp_path: Path) -> None:
    plugin(tmp_path / "fair" / "low")
    plugin(tmp_path / "fair" / "high", dependencies=["low"])
    entries = [{"name": name, "source": f"./{name}"} for name in ("low", "high")]
    manager.add_market(str(market(tmp_path / "fair", *entries)), "")
    high = manager.look_at("high", "", is_update=False)
    assert high["needs"] == ["low@fair"]
    with pytest.raises(PluginError, match="high needs low"):
        manager.install("high", high["review"], {}, "", is_update=False)
    low = manager.look_at("low@fair", "", is_update=False)
    manager.install("low@fair", low["review"], {}, "", is_update=False)
    manager.install("high", high["review"], {}, "", is_update=False)
    with pytest.raises(PluginError, match="needed by high"):
        manager.change("low", "remove")


def test_update_is_shown_and_installed(manager: PluginManager, tmp_path: Path) -> None:
    place = plugin(tmp_path / "tools")
    shown = manager.look_at(str(place), "", is_update=False)
    manager.install(str(place), shown["review"], {}, "", is_update=False)
    assert manager.look_at("tools", "", is_update=True)["is_current"]
    (place / "skills" / "hi" / "more.txt").write_text("more")
    update = manager.look_at("tools", "", is_update=True)
    assert (update["is_update"], update["is_current"]) == (True, False)
    assert ["new files", "skills/hi/more.txt"] in update["rows"]
    manager.install("tools", update["review"], {}, "", is_update=True)
    assert manager.look_at("tools", "", is_update=True)["is_current"]


def test_answers_are_validated(manager: PluginManager, tmp_path: Path) -> None:
    result = {"COUNT": {"type": "number", "max": 9, "required": True}, "NAME": {"default": "Ann"}}
    place = plugin(tmp_path / "tools", userConfig=result)
    review = manager.look_at(str(place), "", is_update=False)["review"]
    for answers, words in [
        ({}, "needs a value for COUNT"),
        ({"COUNT": "10"}, "expected a number"),
        ({"COUNT": "9", "OTHER": "x"}, "does not ask for OTHER"),
        ({"COUNT": "9", "NAME": "a\nb"}, "expected a text"),
    ]:
        with pytest.raises(PluginError, match=words):
            manager.install(str(place), review, answers, "", is_update=False)
    manager.install(str(place), review, {"COUNT": "9"}, "", is_update=False)
    (row,) = manager.list_plugins()
    assert row["options"] == {"COUNT": 9, "NAME": "Ann"}


@pytest.mark.parametrize(
    "source",
    [
        *("", " ", "tools", "./tools", "../tools", "a\0b", "/a\0b", "~nobody-here/x", "x" * 10_000),
        *("file:///etc", "ext::sh -c evil", "-u/evil", "npm:../x", "/etc/passwd"),
    ],
)
def test_odd_sources_are_rejected(
    manager: PluginManager, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str
) -> None:
    """The name of an existing folder in the working directory is refused, too."""
    plugin(tmp_path / "tools")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(KoreError):
        manager.look_at(source, "", is_update=False)
    with pytest.raises(KoreError):
        manager.add_market(source, "")
    assert manager.list_plugins() == []
    assert not (tmp_path / "kore" / "plugins" / "installed.json").exists()


def test_unwatched_process_asks_for_a_restart(tmp_path: Path) -> None:
    place = plugin(tmp_path / "tools")
    manager = PluginManager(tmp_path / "kore", is_watched=False)
    review = manager.look_at(str(place), "", is_update=False)["review"]
    text = manager.install(str(place), review, {}, "", is_update=False)
    assert text == "installed tools 1. Restart Kore to use it."


def test_password_in_an_address_is_not_shown(manager: PluginManager, tmp_path: Path) -> None:
    folder = market(tmp_path / "fair", {"name": "x", "source": "./x"})
    manager.add_market(str(folder), "")
    file = tmp_path / "kore" / "plugins" / "markets.json"
    rows = json.loads(file.read_text())
    rows["fair"]["source"] = {"source": "url", "url": "https://me:hunter2@git.example.org/x"}
    file.write_text(json.dumps(rows))
    (row,) = manager.list_markets()
    assert "hunter2" not in row["from"]
    assert "git.example.org" in row["from"]
    assert os.stat(file).st_mode & 0o077 == 0
