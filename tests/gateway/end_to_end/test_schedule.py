"""Scheduled jobs of a real gateway, across kills."""

import json
from typing import Any

from tests.fakes.faults import answerless
from tests.fakes.model_script import Call, ReplyScript
from tests.gateway.end_to_end.asking import button, push, wait_for_questions
from tests.gateway.end_to_end.gateway_process import OWNER, GatewayProcess


async def jobs(gateway: GatewayProcess) -> list[dict[str, Any]]:
    ran = await gateway.kore("cron", "list", "--json")
    assert ran.code == 0, ran.err
    document: list[dict[str, Any]] = json.loads(ran.out)
    return document


def count_answers(gateway: GatewayProcess, text: str) -> int:
    return sum(text in answer for answer in gateway.api.answers(OWNER))


async def test_overdue_reminder_is_sent_once(alone: GatewayProcess) -> None:
    await alone.start()
    assert "Job 1: tea" in (await alone.answers_to(OWNER, "/cron add in 5s tea"))[-1]
    await alone.kill()
    for _ in range(2):
        await alone.start()
        await alone.until(lambda: count_answers(alone, "⏰ tea"))
        await alone.idle()
        await alone.kill()
    await alone.start()
    await alone.idle()
    assert count_answers(alone, "⏰ tea") == 1
    (job,) = await jobs(alone)
    assert job["state"] == "done"
    assert [(slot["state"], slot["delivered"]) for slot in job["slots"]] == [("ran", True)]


async def test_task_continues_after_a_kill_and_answers_once(
    alone: GatewayProcess,
) -> None:
    alone.model.latency_s = 60
    await alone.start()
    # Do not wait for the reply: the job may start before it arrives, and then takes long.
    await alone.api.user_says(OWNER, "/cron ask in 1s count")
    await alone.until(lambda: alone.model.requests)
    await alone.kill()
    alone.model.latency_s = 0
    await alone.start()
    await alone.until(lambda: count_answers(alone, "echo: count"))
    await alone.idle()
    await alone.kill()
    await alone.start()
    await alone.idle()
    assert count_answers(alone, "echo: count") == 1
    (job,) = await jobs(alone)
    assert [(slot["state"], slot["delivered"]) for slot in job["slots"]] == [("ran", True)]


async def test_reminder_interrupted_by_a_kill_is_repeated_with_a_mark(
    alone: GatewayProcess,
) -> None:
    await alone.start()
    await alone.answers_to(OWNER, "/cron add in 1d tea")
    alone.api.fail("sendMessage", answerless)
    await alone.kore("cron", "run", "1")
    await alone.until(lambda: count_answers(alone, "⏰ tea"))
    (job,) = await jobs(alone)
    assert [(slot["state"], slot["delivered"]) for slot in job["slots"]] == [("ran", False)]
    await alone.kill()
    alone.api.heal()
    await alone.start()
    await alone.until(lambda: count_answers(alone, "⏰ tea") == 2)
    await alone.idle()
    assert "↻" in alone.api.answers(OWNER)[-1]
    (job,) = await jobs(alone)
    assert [(slot["state"], slot["delivered"]) for slot in job["slots"]] == [("ran", True)]


async def test_model_creates_a_job_once_across_a_kill_and_asks_after_untrusted_text(
    alone: GatewayProcess,
) -> None:
    add = Call("schedule", {"action": "add", "when": "in 1d", "text": "buy gold", "prompt": True})
    alone.model.script(
        ReplyScript(tool_calls=(add,)),
        "It is noted.",
        ReplyScript(tool_calls=(add,)),
        "That, too.",
    )
    await alone.start()
    await alone.answers_to(OWNER, "buy gold for me tomorrow")
    assert len(await jobs(alone)) == 1
    # In a group, everyone counts as a stranger.
    await alone.api.user_says(-100_7, "@kore_test_bot buy gold for us", user_id=OWNER)
    (question,) = await wait_for_questions(alone, -100_7)
    assert "schedule" in question.text
    assert len(await jobs(alone)) == 1
    await alone.kill()
    await alone.start()
    await push(alone, question, button(question, "Allow once"), user_id=OWNER)
    await alone.until(lambda: "That, too." in alone.api.answers(-100_7))
    assert len(await jobs(alone)) == 2


async def test_terminal_manages_jobs_of_a_running_gateway(
    alone: GatewayProcess,
) -> None:
    await alone.start()
    await alone.answers_to(OWNER, "hi")
    creation = await alone.kore("cron", "add", "--zone", "Europe/Berlin", "daily 09:00", "stand up")
    assert creation.code == 0
    assert creation.out.startswith("Job 1: stand up, daily at 09:00 (Europe/Berlin), next ")
    (job,) = await jobs(alone)
    assert (job["rule"], job["zone"]) == ("cron 0 9 * * *", "Europe/Berlin")
    assert (await alone.kore("cron", "run", "1")).out == "Running job 1 now.\n"
    await alone.until(lambda: count_answers(alone, "⏰ stand up"))
    assert (await alone.kore("cron", "pause", "1")).out == "Job 1 paused.\n"
    _, row = (await alone.kore("cron", "list")).out.splitlines()
    cells = [cell.strip() for cell in row.split("  ") if cell]
    assert cells[:5] == ["1", "reminder", "stand up", "daily at 09:00 (Europe/Berlin)", "paused"]
    assert (await alone.kore("cron", "resume", "1")).code == 0
    assert (await alone.kore("cron", "remove", "1")).out == "Job 1 removed.\n"
    refused = await alone.kore("cron", "add", "whenever", "x")
    assert refused.code == 1
    assert "expected one of" in refused.err


async def test_empty_heartbeat_file_calls_no_model(
    alone: GatewayProcess,
) -> None:
    alone.configure({"schedule": {"heartbeat_minutes": 30}})
    await alone.start()
    await alone.answers_to(OWNER, "hi")
    await alone.stop()
    await alone.start()
    (job,) = await jobs(alone)
    assert job["kind"] == "heartbeat"
    asked_before = len(alone.model.requests)
    reading = ReplyScript(tool_calls=(Call("read_file", {"path": "HEARTBEAT.md"}),))
    alone.model.script(reading, "HEARTBEAT_OK")
    (alone.workspace / "HEARTBEAT.md").write_text("- water the plants\n")
    shown = len(alone.api.answers(OWNER))
    await alone.kore("cron", "run", "1")
    await alone.until(lambda: len(alone.model.requests) > asked_before)
    await alone.idle()
    assert "water the plants" in json.dumps(alone.model.requests[-1].body)
    assert len(alone.api.answers(OWNER)) == shown
    (job,) = await jobs(alone)
    assert job["slots"][0]["state"] == "ran"
