"""A configuration that is broken beside a gateway that goes on with the last good one."""

import asyncio
import json
from pathlib import Path

import pytest

from tests.gateway.console.terminal import kore_agent
from tests.gateway.end_to_end.gateway_process import OWNER, GatewayProcess

_ENVIRON = {"PYTHONPATH": str(Path(__file__).parents[3]), "PYTHONUTF8": "1"}
_BROKEN = "config.json: line 1"


async def broken(gateway: GatewayProcess, text: str = "{ broken") -> None:
    """The gateway runs, and has kept the configuration that it runs with."""
    await gateway.start()
    good = gateway.home / "config.good.json"
    while not good.exists():
        await asyncio.sleep(0.01)
    gateway.config.write_text(text)


async def test_what_speaks_to_the_gateway_goes_on(alone: GatewayProcess) -> None:
    await broken(alone)
    await alone.told(OWNER, "hi")
    for words in (
        ("agent", "-m", "hello"),
        ("cron", "list"),
        ("pair", "list"),
        ("user", "show", f"telegram:{OWNER}"),
        ("sessions", "list"),
        ("policy", "grants"),
        ("backup", alone.home / "copy.db"),
        ("backup", alone.home / "copy.zip"),
    ):
        ran = await alone.kore(*words)
        assert ran.code == 0, (words, ran.err)
        assert ran.err.count(_BROKEN) == 1, (words, ran.err)
    assert (await alone.kore("agent", "-m", "hello")).out.strip() == "echo: hello"
    ran = await alone.kore("sessions", "list", "--json")
    assert json.loads(ran.out)


async def test_a_conversation_goes_on(alone: GatewayProcess) -> None:
    await broken(alone)
    async with kore_agent(alone.home, environ=_ENVIRON) as terminal:
        await terminal.see("leaves.")
        # A long path breaks the line of the terminal somewhere.
        assert _BROKEN in " ".join(terminal.text.split())
        terminal.type("hello\r")
        await terminal.see("echo: hello")


async def test_other_files_that_are_broken_stop_no_verb_that_needs_none(
    alone: GatewayProcess,
) -> None:
    await alone.start()
    secrets = alone.home / "secrets.json"
    secrets.write_text("{}")
    secrets.chmod(0o644)
    ran = await alone.kore("cron", "list")
    assert ran.code == 0
    assert ran.err.count("secrets.json: others can read it") == 1


@pytest.mark.parametrize("words", [("agent", "-m", "hello"), ("cron", "list")])
async def test_without_a_gateway_it_is_an_error(
    alone: GatewayProcess, words: tuple[str, ...]
) -> None:
    await broken(alone)
    await alone.stop()
    ran = await alone.kore(*words)
    assert (ran.code, ran.out) == (2, "")
    assert _BROKEN in ran.err
