"""`/plugin` in chats, and a gateway that loads the changes."""

import json
from pathlib import Path

from agent.providers.scripted import EchoProvider
from gateway.config.load import Sources
from gateway.core.messages import Sender
from gateway.plugins.installation import PluginInstaller
from gateway.runtime.paths import DataDir
from tests.gateway.parts import chat_message, running


async def test_owner_lists_shows_and_switches_plugins(tmp_path: Path) -> None:
    async with running(tmp_path, EchoProvider(), owner="chat:7") as parts:
        answers = 0

        async def say(text: str) -> str:
            nonlocal answers
            answers += 1
            await parts.bus.submit(chat_message(text))
            return (await parts.platform.answers("1", answers))[-1]

        assert "There are no plugins" in await say("/plugin")
        folder = tmp_path / "notes"
        (folder / "skills" / "hi").mkdir(parents=True)
        (folder / "skills" / "hi" / "SKILL.md").write_text("---\ndescription: d\n---\nB")
        (folder / ".claude-plugin").mkdir()
        content = {"name": "notes", "version": "2", "description": "Keeps *notes*."}
        (folder / ".claude-plugin" / "plugin.json").write_text(json.dumps(content))
        installer = PluginInstaller(DataDir(tmp_path).plugins)
        with installer.fetched({"source": "folder", "path": str(folder)}) as review:
            installer.install(review)
        assert "2 (enabled)" in await say("/plugins")
        assert "skills: skills" in await say("/plugin show notes")
        assert "not used any more" in await say("/plugin disable notes")
        assert not installer.find("notes").is_enabled
        assert "(disabled)" in await say("/plugin list")
        assert "from the next message on" in await say("/plugin enable notes")
        assert installer.find("notes").is_enabled
        assert "there is no plugin" in await say("/plugin show other")
        assert "kore plugin" in await say("/plugin install x")
        other = chat_message("/plugin disable notes", sender=Sender("8"))
        await parts.bus.submit(other)
        assert "Only the owner" in (await parts.platform.answers("1", answers + 1))[-1]
        assert installer.find("notes").is_enabled


def test_plugin_list_is_watched(tmp_path: Path) -> None:
    sources = Sources(None, tmp_path, tmp_path, {})
    assert tmp_path / "plugins" / "installed.json" in sources.watched_files
