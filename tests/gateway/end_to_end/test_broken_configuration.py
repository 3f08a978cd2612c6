"""A configuration that becomes invalid while the gateway continues with the last valid version."""

import asyncio
import json
from pathlib import Path
from zipfile import ZipFile

from tests.gateway.cli.console.terminal import kore_agent
from tests.gateway.end_to_end.gateway_process import OWNER, GatewayProcess
from tests.postgres_server import only_sqlite

_ENVIRON = {"PYTHONPATH": str(Path(__file__).parents[3]), "PYTHONUTF8": "1"}
_BROKEN = "config.json: line 1"


async def break_configuration(gateway: GatewayProcess, text: str = "{ broken") -> None:
    """Start the gateway, wait until it has saved its configuration, and break the file."""
    await gateway.start()
    good = gateway.home / "config.good.json"
    while not good.exists():
        await asyncio.sleep(0.01)
    gateway.config.write_text(text)


async def test_gateway_commands_work_with_a_broken_configuration(alone: GatewayProcess) -> None:
    await break_configuration(alone)
    await alone.answers_to(OWNER, "hi")
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


async def test_conversation_continues_with_a_broken_configuration(alone: GatewayProcess) -> None:
    await break_configuration(alone)
    async with kore_agent(alone.home, environ=_ENVIRON) as terminal:
        await terminal.see("quits.")
        # A long path wraps somewhere in the terminal.
        assert _BROKEN in " ".join(terminal.text.split())
        terminal.type("hello\r")
        await terminal.see("echo: hello")


async def test_broken_secrets_do_not_affect_unrelated_verbs(
    alone: GatewayProcess,
) -> None:
    await alone.start()
    secrets = alone.home / "secrets.json"
    secrets.write_text("{}")
    secrets.chmod(0o644)
    ran = await alone.kore("cron", "list")
    assert ran.code == 0
    assert ran.err.count("secrets.json: readable by other users (mode") == 1


async def test_broken_configuration_without_a_gateway_is_an_error(alone: GatewayProcess) -> None:
    await break_configuration(alone)
    await alone.stop()
    for words in (("agent", "-m", "hello"), ("cron", "list")):
        ran = await alone.kore(*words)
        assert (ran.code, ran.out) == (2, ""), words
        assert _BROKEN in ran.err, words


_SECRETS = ("{ broken", '["a list"]', '{"MODEL_KEY": 7}', '{"MODEL_KEY": "k-1"}')


def break_secrets(gateway: GatewayProcess, text: str) -> None:
    """Make the secrets file unusable by its text or, without one, by its mode."""
    secrets = gateway.home / "secrets.json"
    secrets.write_text(text)
    secrets.chmod(0o644 if "k-1" in text else 0o600)


async def test_verbs_work_with_broken_secrets_while_a_gateway_runs(alone: GatewayProcess) -> None:
    config = json.loads(alone.config.read_text())
    config["model_list"][0]["api_key"] = "${MODEL_KEY}"
    config["logging"] = {**config.get("logging", {}), "level": "${LOG_LEVEL}"}
    alone.config.write_text(json.dumps(config))
    secrets = alone.home / "secrets.json"
    secrets.write_text(json.dumps({"MODEL_KEY": "k-1", "LOG_LEVEL": "info"}))
    secrets.chmod(0o600)
    await alone.start()
    await alone.answers_to(OWNER, "hi")
    for n, text in enumerate(_SECRETS):
        break_secrets(alone, text)
        copy = alone.home / f"copy{n}.zip"
        verbs = [("agent", "-m", "hello"), ("backup", copy)]
        if n == 0:
            verbs += [
                ("cron", "list"),
                ("pair", "list"),
                ("user", "show", f"telegram:{OWNER}"),
                ("backup", alone.home / "copy.db"),
            ]
        for words in verbs:
            ran = await alone.kore(*words)
            assert ran.code == 0, (text, words, ran.err)
            assert ran.err.count("secrets.json: ") == 1, (text, words, ran.err)
        with ZipFile(copy) as packed:
            assert packed.read("secrets.json").decode() == text


async def test_broken_files_are_backed_up_without_a_gateway(alone: GatewayProcess) -> None:
    await alone.start()
    await alone.answers_to(OWNER, "hi")
    await alone.stop()
    config = alone.config.read_text()
    for wrong in ("secrets.json", "config.json", "both"):
        (alone.home / "secrets.json").unlink(missing_ok=True)
        alone.config.write_text(config)
        if wrong != "config.json":
            break_secrets(alone, "{ broken")
        if wrong != "secrets.json":
            alone.config.write_text("{ broken")
        for name in (f"{wrong}.db", f"{wrong}.zip"):
            ran = await alone.kore("backup", alone.home / name)
            assert ran.code == 0, ran.err
            assert ".json: line 1" in ran.err
            assert "verified: 1 conversation, 2 messages" in ran.out
        with ZipFile(alone.home / f"{wrong}.zip") as packed:
            assert "{ broken" in {packed.read(n).decode() for n in ("config.json", "secrets.json")
                                  if n in packed.namelist()}  # fmt: skip


@only_sqlite
async def test_backup_uses_the_default_database_with_a_broken_configuration(
    alone: GatewayProcess,
) -> None:
    await alone.start()
    await alone.stop()
    alone.home.joinpath("config.good.json").unlink(missing_ok=True)
    alone.config.write_text("{ broken")
    ran = await alone.kore("backup", alone.home / "copy.zip")
    assert ran.code == 0, ran.err
    assert str(alone.database) in ran.err
    alone.database.unlink()
    ran = await alone.kore("backup", alone.home / "copy2.zip")
    assert ran.code == 2
    assert _BROKEN in ran.err
