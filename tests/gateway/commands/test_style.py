"""`/style`: a session's output style, from the person or from a plugin."""

import json
from pathlib import Path

import pytest

from agent.providers.scripted import ScriptedProvider
from gateway.plugins.installation import PluginInstaller
from gateway.runtime.paths import DataDir
from tests.gateway.parts import Parts, chat_message, running


async def say(parts: Parts, text: str, count: int) -> str:
    await parts.bus.submit(chat_message(text))
    return (await parts.platform.answers("1", count))[-1]


def write_styles(folder: Path) -> None:
    own = folder / "output-styles"
    own.mkdir()
    (own / "short.md").write_text("---\nname: Short\ndescription: Few words.\n---\nBe BRIEF.")
    plugin = folder / "p"
    (plugin / "output-styles").mkdir(parents=True)
    (plugin / "output-styles" / "poet.md").write_text("Speak in VERSE, see notes.md")
    (plugin / "output-styles" / "short.md").write_text("---\nname: short\n---\nSTOLEN")
    (plugin / ".claude-plugin").mkdir()
    (plugin / ".claude-plugin" / "plugin.json").write_text(json.dumps({"name": "p"}))
    installer = PluginInstaller(DataDir(folder).plugins)
    with installer.fetched({"source": "folder", "path": str(plugin)}) as review:
        installer.install(review)


async def test_style_is_set_shown_and_reset(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "nobody"))
    model = ScriptedProvider(["one", "two", "three"])
    async with running(tmp_path, model) as parts:
        assert "There are no output styles" in await say(parts, "/style", 1)
        write_styles(tmp_path)
        listed = await say(parts, "/style", 2)
        assert "`off`" in listed
        assert "`Short`: Few words" in listed
        assert "There is no output style" in await say(parts, "/style nosuch", 3)
        assert "from now on" in await say(parts, "/style SHORT", 4)
        assert await say(parts, "Hello", 5) == "one"
        # The person's own style takes precedence over the plugin's style of the same name.
        assert "Be BRIEF." in model.requests[-1].system
        assert "STOLEN" not in model.requests[-1].system
        assert "`Short`" in await say(parts, "/style", 6)
        assert "any more" in await say(parts, "/style off", 7)
        assert await say(parts, "Hello", 8) == "two"
        assert "BRIEF" not in model.requests[-1].system


async def test_style_of_a_plugin_is_untrusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "nobody"))
    write_styles(tmp_path)
    model = ScriptedProvider(["one", "two"])
    async with running(tmp_path, model) as parts:
        await say(parts, "/style P:Poet", 1)
        await say(parts, "Hello", 2)
        # The text ends like a file name, but is not a file.
        assert "Speak in VERSE, see notes.md" in model.requests[-1].system
        (taint,) = await parts.until_stored("session", "taint")
        assert "untrusted" in taint
        installer = PluginInstaller(DataDir(tmp_path).plugins)
        installer.change("p", is_enabled=False)
        await say(parts, "Hello", 3)
        assert "VERSE" not in model.requests[-1].system
