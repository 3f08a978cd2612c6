"""Other `kore` programs in the home of a running gateway."""

import json
import sqlite3
from pathlib import Path

import pytest

from tests.fakes.model_script import ReplyScript
from tests.gateway.cli.console.terminal import kore_there
from tests.gateway.end_to_end.gateway_process import GatewayProcess
from tests.gateway.stored import like

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_status_reports_the_state_of_the_bot(gateway: GatewayProcess) -> None:
    ran = await gateway.kore("status", "--json")
    facts = json.loads(ran.out)
    assert (ran.code, facts["running"], facts["model"]) == (0, True, "stand-in")
    (channel,) = facts["channels"].values()
    assert (channel["state"], channel["last_error"]) == ("polling", None)


async def test_sessions_are_listed_shown_and_exported(gateway: GatewayProcess, chat: int) -> None:
    await gateway.answers_to(chat, "grüße 😀")
    listed = json.loads((await gateway.kore("sessions", "list", "--json")).out)
    (session,) = [item for item in listed if item["lane"] and item["lane"].endswith(f":{chat}")]
    assert session["messages"] == 2
    shown = await gateway.kore("sessions", "show", session["id"])
    assert "grüße 😀" in shown.out
    exported = await gateway.kore("sessions", "export", session["id"])
    meta, *messages = map(json.loads, exported.out.splitlines())
    assert meta["id"] == session["id"]
    assert [message["role"] for message in messages] == ["user", "assistant"]


async def test_message_can_be_replayed(gateway: GatewayProcess, chat: int) -> None:
    await gateway.answers_to(chat, "hi")
    ((seq,),) = await gateway.stored("inbox", "seq", lane=like(f"%:{chat}"))
    ran = await gateway.kore("replay", str(seq))
    assert (ran.code, ran.err) == (0, "")
    await gateway.idle()
    assert gateway.api.answers(chat) == ["echo: hi", "echo: hi"]


async def test_replay_of_an_unknown_message_is_reported_in_one_sentence(
    gateway: GatewayProcess,
) -> None:
    ran = await gateway.kore("replay", "999999")
    assert (ran.code, ran.out) == (1, "")
    assert len(ran.err.splitlines()) <= 2


async def test_backup_during_work_is_complete(gateway: GatewayProcess, chat: int) -> None:
    gateway.model.script(ReplyScript(text="slowly", pieces=6, chunk_delay_s=0.1))
    await gateway.api.user_says(chat, "hi")
    copy = gateway.home / "copy.db"
    assert (await gateway.kore("backup", copy)).code == 0
    await gateway.idle()
    assert gateway.api.answers(chat) == ["slowly"]
    assert copy.stat().st_mode & 0o077 == 0
    connection = sqlite3.connect(copy)
    assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    connection.close()


async def test_second_gateway_names_the_owner(gateway: GatewayProcess) -> None:
    ran = await gateway.kore("gateway")
    assert (ran.code, ran.out) == (75, "")
    assert "kore gateway (pid " in ran.err
    assert gateway.runs


async def test_terminal_question_goes_through_the_gateway(
    gateway: GatewayProcess,
) -> None:
    ran = await gateway.kore("agent", "-m", "from the terminal")
    assert (ran.code, ran.out.strip()) == (0, "echo: from the terminal")
    listed = (await gateway.kore("sessions", "list", "--json")).out
    assert any((load["lane"] or "").startswith("cli:") for load in json.loads(listed))


async def test_print_streams_the_answer(gateway: GatewayProcess) -> None:
    text = "alpha beta gamma delta"
    gateway.model.script(ReplyScript(text=text, pieces=4, waits_at=3))
    environ = {"PYTHONPATH": str(Path(__file__).parents[3]), "PYTHONUTF8": "1"}
    async with kore_there(gateway.home, "-p", "say it", environ=environ) as terminal:
        # The rest of the answer follows only after that.
        await terminal.see("alpha")
        assert "delta" not in terminal.text
        gateway.model.let_go()
        await terminal.see("delta")
        assert await terminal.ended() == 0


async def test_terminal_and_chats_work_concurrently(gateway: GatewayProcess, chat: int) -> None:
    gateway.model.latency_s = 0.2
    await gateway.api.user_says(chat, "from the chat")
    ran = await gateway.kore("agent", "-m", "from the terminal")
    await gateway.idle()
    assert ran.out.strip() == "echo: from the terminal"
    assert gateway.api.answers(chat) == ["echo: from the chat"]
