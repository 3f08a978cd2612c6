"""A gateway dies with unfinished work, and terminals own its data until it is back."""

import shutil

import pytest

from tests.fakes.faults import hang
from tests.fakes.model_script import ReplyScript
from tests.gateway.end_to_end.asking import (
    button,
    notes,
    push,
    questions,
    run,
    seed,
    wait_for_questions,
    write,
)
from tests.gateway.end_to_end.gateway_process import OWNER, GatewayProcess
from tests.gateway.end_to_end.received_files import inbox, png
from tests.gateway.stored import like

_EFFECTS = "effects/ran"


@pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")
async def test_one_shot_run_leaves_the_chats_to_the_gateway(alone: GatewayProcess) -> None:
    """Each chat has different unfinished work.

    The chats are in the middle of a turn, or wait behind a download, for an approval, for an answer
    to be sent, or for a reminder.
    """
    await alone.start()
    (alone.workspace / "effects").mkdir()
    # A call that needs approval when its turn continues.
    alone.model.script(ReplyScript(tool_calls=(run(f"echo once >> {_EFFECTS}"),)))
    await alone.api.user_says(OWNER, "run it")
    (question,) = await wait_for_questions(alone)
    data = button(question, "Allow once")
    await alone.idle()
    alone.api.fail("file", hang)
    await alone.api.user_sends(7, "photo", png(1), caption="look")
    alone.api.fail("sendMessage", hang)
    await alone.api.user_says(8, "answer me")
    await alone.until(lambda: "sendMessage" in alone.api.calls[-3:] and "file" in alone.api.calls)
    alone.model.latency_s = 60
    asked_before = len(alone.model.requests)
    await alone.api.user_says(9, "slow one")
    await alone.until(lambda: len(alone.model.requests) > asked_before)
    await alone.kill()
    alone.api.heal()
    alone.model.latency_s = 0
    before = len(alone.model.requests)
    for text in ("one", "two"):
        ran = await alone.kore("agent", "-m", text)
        assert (ran.code, ran.out) == (0, f"echo: {text}\n"), ran.err
    assert len(alone.model.requests) == before + 2
    assert alone.api.answers(9) == []
    await alone.start()
    assert "Allowed once" in await push(alone, question, data)
    await alone.idle()
    assert (alone.workspace / _EFFECTS).read_text() == "once\n"
    assert not questions(alone)
    assert alone.api.answers(9) == ["echo: slow one"]
    assert alone.api.answers(7) == ["echo: [photo] look"]
    assert [file.read_bytes() for file in inbox(alone, 7)] == [png(1)]
    (answer,) = alone.api.answers(8)
    assert answer.endswith("echo: answer me")
    ((tries,),) = await alone.stored("turn", "attempts", lane=like("%:9"))
    assert tries == 2, "each start that goes on with it costs one; those of terminals none"


async def test_later_question_is_asked_in_its_chat(alone: GatewayProcess) -> None:
    seed(alone)
    await alone.start()
    alone.model.latency_s = 60
    alone.model.script(ReplyScript(tool_calls=write("new\n")), "Done.")
    await alone.api.user_says(OWNER, "change it")
    await alone.until(lambda: alone.model.requests)
    await alone.kill()
    alone.model.latency_s = 0
    alone.model.forget_script()
    assert (await alone.kore("agent", "-m", "hello")).out == "echo: hello\n"
    assert notes(alone) == "old\n"
    alone.model.script(ReplyScript(tool_calls=write("new\n")), "Done.")
    await alone.start()
    (question,) = await wait_for_questions(alone)
    await push(alone, question, button(question, "Allow once"))
    await alone.until(lambda: alone.api.answers(OWNER)[-1] == "Done.")
    assert notes(alone) == "new\n"


async def test_question_does_not_expire_while_its_chat_is_unreachable(
    alone: GatewayProcess,
) -> None:
    alone.configure({"security": {"approval_timeout_s": 3}})
    seed(alone)
    await alone.start()
    alone.model.script(ReplyScript(tool_calls=write("new\n")))
    await alone.api.user_says(OWNER, "change it")
    await wait_for_questions(alone)
    await alone.idle()
    await alone.kill()
    # Longer than the question's timeout.
    alone.model.script(ReplyScript(tool_calls=(run("sleep 3"),)), "slept", "As you wish.")
    ran = await alone.kore("agent", "-y", "-m", "sleep")
    assert (ran.code, ran.out) == (0, "slept\n"), ran.err
    assert len(questions(alone)) == 1
    await alone.start()
    await alone.until(lambda: "As you wish." in alone.api.answers(OWNER))
    await alone.idle()
    assert not questions(alone), "the buttons are gone"
    assert notes(alone) == "old\n"


async def test_session_in_use_by_a_chat_is_not_resumed(alone: GatewayProcess) -> None:
    await alone.start()
    alone.model.latency_s = 60
    await alone.api.user_says(9, "slow one")
    await alone.until(lambda: alone.model.requests)
    await alone.kill()
    alone.model.latency_s = 0
    ((session,),) = await alone.stored("turn", "session", lane=like("%:9"))
    ran = await alone.kore("agent", "-s", str(session), "-m", "hello")
    assert ran.code == 1
    assert "unfinished turn from telegram" in ran.err
    assert "kore gateway" in ran.err
    ran = await alone.kore("agent", "-s", str(session), "--fork-session", "-m", "hello")
    assert (ran.code, ran.out) == (0, "echo: hello\n"), ran.err


@pytest.mark.parametrize("verb", [("sessions", "list"), ("cron", "list"), ("replay", "1")])
async def test_verbs_do_not_resume_work_of_a_chat(
    alone: GatewayProcess, verb: tuple[str, ...]
) -> None:
    await alone.start()
    await alone.answers_to(9, "first")
    alone.model.latency_s = 60
    await alone.api.user_says(9, "slow one")
    await alone.until(lambda: len(alone.model.requests) == 2)
    await alone.kill()
    alone.model.latency_s = 0
    await alone.kore(*verb)
    assert len(alone.model.requests) == 2
    await alone.start()
    await alone.idle()
    assert alone.api.answers(9).count("echo: slow one") == 1
