"""Plugins with the structure of published ones: installed and used through the real program.

The market in `market/` is our own; its manifests, entries and folders have the shapes that
published markets use: an entry that is the whole manifest, a market that is a plugin itself,
servers without `mcpServers`, hooks with a description.
"""

import asyncio
import json
import os
from pathlib import Path

import pytest

from tests import postgres_server
from tests.fakes.model import ModelServer
from tests.fakes.model_script import ReplyScript, reply_with_call
from tests.fork_server import start_piped
from tests.gateway.cli.kore import kore

MARKET = Path(__file__).parent / "market"


class Workshop:
    """Kore with the market, a trusted project and a model."""

    def __init__(self, folder: Path, model: ModelServer) -> None:
        self.home, self.work, self.model = folder / "kore", folder / "work", model
        self.home.mkdir()
        self.work.mkdir()
        (self.work / ".git").mkdir()
        entry = {"model_name": "default", "model": "openai/x", "api_base": model.base_url}
        settings = {
            "model_list": [{**entry, "api_key": "k"}],
            "security": {"trusted_folders": [str(self.work)]},
        }
        (self.home / "config.json").write_text(json.dumps(settings))

    def install(self, name: str) -> str:
        """Install a plugin of the market; return the page that the person approves."""
        added = kore("market", "add", MARKET, home=self.home)
        assert added.stdout == "workshop: 5 plugins\n", added.stderr
        done = kore("plugin", "install", f"{name}@workshop", "--yes", home=self.home)
        assert done.returncode == 0, done.stderr
        return done.stdout

    async def ask(self, text: str, *replies: ReplyScript | str, flag: str = "-y") -> str:
        """Run `kore agent -m TEXT`; return the last user or tool message that the model got."""
        self.model.script(*replies)
        # A python3 of a version manager is a script that is not visible to confined servers.
        environ = {"PATH": f"/usr/bin:{os.environ['PATH']}", "HOME": str(self.home.parent)}
        environ |= {"KORE_HOME": str(self.home), **postgres_server.environ_of(self.home)}
        process = await start_piped(("agent", flag, "-m", text), cwd=self.work, env=environ)
        async with asyncio.timeout(120):
            out, err = await process.communicate()
        assert process.returncode == 0, err.decode()
        assert out.decode().strip() == replies[-1], err.decode()
        return json.dumps(self.model.requests[-1].body["messages"][-1], ensure_ascii=False)


@pytest.fixture
def workshop(tmp_path: Path, model_server: ModelServer) -> Workshop:
    return Workshop(tmp_path, model_server)


async def test_skill_and_command_are_invoked_by_a_script(workshop: Workshop) -> None:
    page = workshop.install("release-kit")
    assert "skills: release-notes" in page
    assert "commands: changelog" in page
    assert "agents: release-checker" in page
    command = await workshop.ask("/release-kit:changelog v2", "drafted")
    assert "Draft the changelog of v2 from the git log." in command
    skill = await workshop.ask("/release-kit:Release-Notes v2", "written")
    assert "Skill release-kit:Release Notes, in the folder" in skill
    assert "references/format.md, scripts/count.sh" in skill


async def test_agent_works_on_a_task(workshop: Workshop) -> None:
    workshop.install("release-kit")
    task = reply_with_call(
        "task", subagent_type="release-checker", description="check", prompt="Check v2."
    )
    result = await workshop.ask("Can we release?", task, "Three points are open.", "Not yet.")
    assert "Three points are open." in result
    agent = str(workshop.model.requests[1].body["messages"])
    assert "Count the open points and report the number." in agent


async def test_tool_of_an_mcp_server_is_called(workshop: Workshop) -> None:
    pytest.importorskip("mcp", reason="needs the extra mcp")
    page = workshop.install("ledger")
    assert "ledger = LEDGER_CURRENCY=EUR python3 ${CLAUDE_PLUGIN_ROOT}/ledger.py" in page
    call = reply_with_call("mcp__plugin_ledger_ledger__balance", account="shop")
    refused = await workshop.ask("How much is there?", call, "I may not look.")
    assert "The owner can allow this call in a conversation." in refused
    result = await workshop.ask("And now?", call, "4,711 euros.", flag="--full-access")
    assert "shop: 4,711 EUR" in result


async def test_hook_blocks_a_call(workshop: Workshop) -> None:
    page = workshop.install("careful")
    assert "hooks: PreToolUse (command): python3 ${CLAUDE_PLUGIN_ROOT}/hooks/check.py" in page
    locked = reply_with_call("write_file", path="a.lock", content="x")
    result = await workshop.ask("Lock it.", locked, "It stays.")
    assert "Locked files stay as they are." in result
    assert not (workshop.work / "a.lock").exists()
    free = reply_with_call("write_file", path="a.txt", content="x")
    await workshop.ask("Write it.", free, "Written.")
    assert (workshop.work / "a.txt").read_text() == "x"


async def test_language_server_answers(workshop: Workshop) -> None:
    page = workshop.install("wordlist-lsp")
    assert "language servers: wordlist = python3 ${CLAUDE_PLUGIN_ROOT}/wordlist.py" in page
    (workshop.work / "fruit.words").write_text("apple pear\nplum\nthe pear\n")
    where = reply_with_call(
        "lsp", operation="definition", path="fruit.words", line=3, symbol="pear"
    )
    result = await workshop.ask("Where is the pear?", where, "In line 1.")
    assert "fruit.words:1: apple pear" in result


async def test_market_is_a_plugin_with_the_named_skills(workshop: Workshop) -> None:
    page = workshop.install("paper-skills")
    assert "skills: invoice, minutes\n" in page
    skill = await workshop.ask("/minutes of Monday", "written")
    assert "The minutes begin with the date." in skill
    rows = json.loads(kore("skills", "list", "--json", home=workshop.home).stdout)
    assert [row["name"] for row in rows] == ["minutes", "invoice"]
