"""Approvals across kills, restarts and time."""

import shutil

import pytest

from tests.fakes.model_script import ReplyScript
from tests.gateway.end_to_end.asking import (
    NOTES,
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


async def test_kill_during_a_question_loses_nothing(alone: GatewayProcess) -> None:
    seed(alone)
    await alone.start()
    alone.model.script(ReplyScript(text="I change it.", tool_calls=write("new\n")), "Done.")
    await alone.api.user_says(OWNER, "change it")
    (question,) = await wait_for_questions(alone)
    assert "-old" in question.text
    assert "+new" in question.text
    # A turn that waits for a person does not occupy a lane, and sent messages are recorded.
    await alone.idle()
    await alone.kill()
    data = button(question, "Allow once")
    await alone.start()
    assert notes(alone) == "old\n"
    assert len(alone.model.requests) == 1
    assert "Allowed once" in await push(alone, question, data)
    await alone.until(lambda: alone.api.answers(OWNER)[-1] == "I change it.\n\nDone.")
    assert notes(alone) == "new\n"
    shown = alone.api.answers(OWNER)[0]
    assert f"Allowed once by Person {OWNER} (telegram:{OWNER})" in shown
    assert not questions(alone)
    assert len(alone.model.requests) == 2
    # A second press is too late and has no effect.
    (alone.workspace / NOTES).write_text("mine\n")
    assert "Too late" in await push(alone, question, data)
    await alone.idle()
    assert notes(alone) == "mine\n"


@pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")
async def test_stored_press_is_executed_after_a_kill(alone: GatewayProcess) -> None:
    await alone.start()
    (alone.workspace / "effects").mkdir()
    alone.model.script(ReplyScript(tool_calls=(run("echo once >> effects/ran"),)))
    await alone.api.user_says(OWNER, "run it")
    (question,) = await wait_for_questions(alone)
    data = button(question, "Allow once")
    await alone.idle()
    await alone.kill()
    await alone.api.user_presses(OWNER, question.message_id, data)
    for _ in range(3):
        await alone.start()
        await alone.kill()
    await alone.start()
    await alone.idle()
    assert not questions(alone)
    ran = alone.workspace / "effects" / "ran"
    assert not ran.exists() or ran.read_text() == "once\n"
    assert (await alone.status())["open_questions"] == 0


async def test_unanswered_question_is_denied(alone: GatewayProcess) -> None:
    seed(alone)
    alone.configure({"security": {"approval_timeout_s": 0.5}})
    await alone.start()
    alone.model.script(ReplyScript(tool_calls=write("new\n")), "As you wish.")
    await alone.api.user_says(OWNER, "change it")
    await alone.until(lambda: "As you wish." in alone.api.answers(OWNER))
    await alone.idle()
    (question, _) = (shown for shown in alone.api.chat(OWNER) if shown.from_bot)
    assert "⌛ Expired, counted as denied" in question.text
    assert notes(alone) == "old\n"
