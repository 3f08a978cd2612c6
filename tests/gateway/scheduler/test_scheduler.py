"""Jobs from creation to delivery, with real parts and a clock that the test sets."""

import asyncio
import time
from pathlib import Path

import pytest

from agent.providers.scripted import ScriptedProvider
from gateway.channels.base import ChatUnreachable, MessageRefused, NotSent
from gateway.config.sections import TtsSection
from gateway.core.messages import Sender
from gateway.scheduler import firing
from gateway.store.repositories import jobs
from tests.fakes.gated import Gated
from tests.fakes.platform import CarryingPlatform, Fault
from tests.fakes.studio import Studio
from tests.gateway.parts import (
    accept_messages,
    cancel_and_wait,
    chat_message,
    running,
    tool_call,
    wait_until,
)
from tests.gateway.scheduler.clock import Clock, with_timer
from tests.gateway.stored import below


async def test_reminder_is_sent_when_due(tmp_path: Path) -> None:
    async with with_timer(tmp_path) as place:
        assert "Job 1: tea" in await place.answer_to("/cron add in 20m tea")
        place.clock.ahead += 19 * 60
        await place.wait_until_idle()
        assert len(place.texts()) == 1
        place.clock.ahead += 61
        assert (await place.until_shown(2))[-1] == "⏰ tea"
        assert await place.parts.until_stored("job", "state", id=1) == ("done",)
        await place.parts.until_stored("outbox", state="sent", kind="notice")
        assert "ran, delivered" in await place.answer_to("/cron")


async def test_job_with_an_unknown_time_zone_does_not_stop_other_jobs(tmp_path: Path) -> None:
    async with with_timer(tmp_path) as place:
        await place.answer_to("/cron add daily 09:00 lost")
        await place.answer_to("/cron add every 1h tea")
        # As after a move to a machine with an older zone database.
        await place.parts.change("job", {"zone": "Nowhere/Land"}, id=1)
        place.clock.ahead += 25 * 3_600
        shown = await place.until_shown(3)
        assert shown[-1].startswith("⏰ tea")
        (result,) = await place.parts.stored("job", "state", "reason", id=1)
        assert result[0] == "failed"
        assert "unknown time zone 'Nowhere/Land'" in result[1]
        text = await place.answer_to("/cron")
        assert "lost" in text
        assert "tea" in text


async def test_clock_is_not_read_without_jobs(tmp_path: Path) -> None:
    async with with_timer(tmp_path) as place:
        await place.answer_to("/cron")
        looks = place.clock.looks
        place.clock.ahead += 86_400
        await place.answer_to("/cron")
        assert place.clock.looks == looks


async def test_answer_to_a_prompt_job_is_sent_to_its_chat(tmp_path: Path) -> None:
    model = ScriptedProvider(["hello", "It rains."])
    async with with_timer(tmp_path, model) as place:
        await place.answer_to("hi")
        await place.answer_to("/cron ask every 1h how is the weather?")
        place.clock.ahead += 3_600
        assert (await place.until_shown(3))[-1] == "It rains."
        messages = model.requests[-1].messages
        assert "how is the weather?" in messages[-1].text
        assert any("hello" in message.text for message in messages), "it is the chat's conversation"
        await wait_until(lambda: place.parts.bus.lanes == 0)
        assert await place.states() == [("ran",)]


async def test_prompt_job_may_use_a_new_session_each_time(tmp_path: Path) -> None:
    model = ScriptedProvider(["hello", "one", "two"])
    async with with_timer(tmp_path, model) as place:
        await place.answer_to("hi")
        await place.answer_to("/cron ask --own every 1h count")
        for n in (3, 4):
            place.clock.ahead += 3_600
            await place.until_shown(n)
            await wait_until(lambda: place.parts.bus.lanes == 0)
        assert [len(request.messages) for request in model.requests] == [1, 1, 1]


async def test_stop_ends_the_running_job_of_its_chat_and_keeps_queued_messages(
    tmp_path: Path,
) -> None:
    model = Gated(is_open=lambda text: text == "hi")
    async with with_timer(tmp_path, model) as place:
        await place.answer_to("hi")
        await place.answer_to("/cron ask every 1h count")
        await place.answer_to("/cron ask --own every 1h sing")
        place.clock.ahead += 3_601
        for job in ("count", "sing"):
            await wait_until(lambda job=job: any(job in prompt for prompt in model.texts), 30)
        model.let_go("and now?")
        await place.parts.bus.submit(chat_message("and now?"))
        # A stop in another chat does not reach the job.
        assert await place.answer_to("/stop", "2") == "Nothing is running."
        assert model.running == 2
        await place.parts.bus.submit(chat_message("/stop"))
        shown = await place.until_shown(6)
        assert sorted("⏹ Stopped." in text for text in shown[3:]) == [False, True, True]
        assert any("and now?" in text for text in shown[3:])
        await wait_until(lambda: place.parts.bus.lanes == 0, 30)
        assert model.running == 0
        await place.parts.until_count(2, "job_run", state="ran")
        assert await place.states(1) == await place.states(2) == [("ran",)]


async def test_running_job_asks_no_person_and_reports_denials(tmp_path: Path) -> None:
    import json

    from agent.types import ToolCall, assistant

    args = {"path": "a.txt", "old_string": "old", "new_string": "new"}
    writes = assistant("", (ToolCall("c1", "edit_file", args, json.dumps(args)),))
    model = ScriptedProvider([writes, "I could not."])
    async with with_timer(tmp_path, model, owner="chat:7") as place:
        (place.parts.workspace / "a.txt").write_text("old")
        await place.answer_to("/cron ask in 5m write it")
        place.clock.ahead += 301
        answer = (await place.until_shown(2))[-1]
        assert answer.startswith("I could not.")
        assert "nobody was available to approve it: `edit_file a.txt`" in answer
        assert (place.parts.workspace / "a.txt").read_text() == "old"
        assert await place.parts.stored("approval") == []


async def test_job_never_exceeds_the_mode_it_was_created_in(tmp_path: Path) -> None:
    import json

    from agent.types import ToolCall, assistant

    args = {"path": "a.txt", "old_string": "old", "new_string": "new"}

    def writes(n: int):  # type: ignore[no-untyped-def]
        return assistant("", (ToolCall(f"c{n}", "edit_file", args, json.dumps(args)),))

    async with with_timer(tmp_path, [writes(1), "no", writes(2), "yes"], owner="chat:7") as place:
        (place.parts.workspace / "a.txt").write_text("old")
        await place.answer_to("/cron ask in 5m write it")
        await place.answer_to("/mode auto")
        place.clock.ahead += 301
        await place.until_shown(3)
        assert (place.parts.workspace / "a.txt").read_text() == "old"
        await place.answer_to("/cron ask in 10m write it")
        place.clock.ahead += 301
        await place.until_shown(5)
        assert (place.parts.workspace / "a.txt").read_text() == "new"


async def test_missed_slots_follow_the_catch_up_choice(tmp_path: Path) -> None:
    async with with_timer(tmp_path) as place:
        for rule in ("once", "skip", "all"):
            await place.answer_to(f"/cron add --catch-up {rule} every 1h {rule}")
        before = len(place.texts())
    async with with_timer(tmp_path, clock=Clock(3 * 3_600 + 1_800)) as place:
        await place.wait_until_idle()
        shown = await place.until_shown(5)
        text = "\n".join(shown)
        assert before == 3
        assert text.count("⏰ once") == 1
        assert "2 before it were missed" in text
        assert text.count("⏰ all") == 3
        assert "⏰ skip" not in text
        assert "Missed while I was not running: job 2, skip, 3 times" in text
        assert [state for (state,) in await place.states(2)] == ["missed"] * 3


async def test_slot_never_runs_twice_when_the_clock_goes_back(tmp_path: Path) -> None:
    async with with_timer(tmp_path) as place:
        await place.answer_to("/cron add every 1h stretch")
        place.clock.ahead += 3_600
        await place.until_shown(2)
        place.clock.ahead -= 1_800
        await asyncio.sleep(0)
        place.clock.ahead += 1_800
        await place.wait_until_idle()
        place.clock.ahead += 3_600
        await place.until_shown(3)
        await place.parts.until_count(2, "job_run")
        slots = await place.parts.stored("job_run", "at", order="at")
        assert len(slots) == len(set(slots)) == 2
        assert sum(text.startswith("⏰ stretch") for text in place.texts()) == 2


async def test_clock_that_was_a_year_ahead_delays_no_job(tmp_path: Path) -> None:
    year = 365 * 86_400
    async with with_timer(tmp_path, clock=Clock(year)) as place:
        await place.answer_to("/cron add every 1h stretch")
        await place.wait_until_idle()
        await place.until_shown(2)
        place.clock.ahead = 0
        (slot,) = await place.parts.until_stored(
            "job", "slot_at", slot_at=below(time.time() + year / 2)
        )
        assert slot <= time.time() + 3_600


async def test_quiet_hours_postpone_jobs_without_losing_any(tmp_path: Path) -> None:
    async with with_timer(tmp_path) as place:
        hour = (time.gmtime().tm_hour + 1) % 24
        await place.answer_to("/cron zone UTC")
        await place.answer_to(f"/cron quiet {hour:02}:00-{(hour + 4) % 24:02}:00")
        await place.answer_to("/cron add --catch-up skip every 1h stretch")
        await place.answer_to("/cron add --urgent in 2h fire")
        place.clock.ahead += 2 * 3_600 + 60
        assert (await place.until_shown(5))[-1] == "⏰ fire"
        await place.wait_until_idle()
        assert "held until" in await place.answer_to("/cron")
        place.clock.ahead += 4 * 3_600
        shown = await place.until_shown(7)
        assert [text for text in shown if text.startswith("⏰ stretch")]


async def test_job_that_keeps_failing_is_disabled_and_its_chat_notified(
    tmp_path: Path,
) -> None:
    async with with_timer(tmp_path, [ValueError("x")] * 0) as place:
        await place.answer_to("/cron ask every 1h try")
        for n in range(3):
            place.clock.ahead += 3_600
            await place.until_shown(2 + n)
            await wait_until(lambda: place.parts.bus.lanes == 0)
        assert "failed 3 times in a row and was disabled" in (await place.until_shown(5))[-1]
        assert await place.parts.stored("job", "state") == [("failed",)]
        assert "disabled" in await place.answer_to("/cron")
        assert "Job 1: try" in await place.answer_to("/cron resume 1")
        assert await place.parts.stored("job", "state", "failures") == [("on", 0)]


@pytest.mark.parametrize(
    ("text", "silent"),
    [
        ("HEARTBEAT_OK", True),
        ("**HEARTBEAT_OK**", True),
        ("HEARTBEAT OK.", True),
        ("HEARTBEAT\\_OK", True),
        ("Nothing is due today. HEARTBEAT_OK", True),
        ("HEARTBEAT_OK\n\nThe plants were watered yesterday.", True),
        ("", True),
        ("Water the plants.", False),
        ("x" * 300 + " HEARTBEAT_OK", False),
        ("NOHEARTBEAT_OKAY", False),
    ],
)
def test_short_answer_with_the_silent_word_is_not_sent(text: str, silent: bool) -> None:
    assert firing.is_silent(text) is silent


def test_long_answer_loses_the_silent_word() -> None:
    text = "The plants need water. " * 20
    assert firing.without_silent_word(f"{text}\n\n**HEARTBEAT_OK**") == text.strip()
    assert firing.without_silent_word(text) == text


async def test_silent_word_is_left_out_of_a_jobs_answer(tmp_path: Path) -> None:
    report = "The plants need water. " * 20
    async with with_timer(tmp_path, ["hello", f"{report}\n\nHEARTBEAT_OK"]) as place:
        await place.answer_to("hi")
        await place.answer_to("/cron ask every 1h look at the plants")
        place.clock.ahead += 3_600
        assert (await place.until_shown(3))[-1] == report.strip()


async def test_silent_word_is_not_read_aloud(tmp_path: Path) -> None:
    report = "The plants need water. " * 20
    async with Studio() as studio:
        tts = TtsSection(api_base=studio.base_url, replies="private")
        async with with_timer(
            tmp_path,
            ["hello", f"{report}\n\nHEARTBEAT_OK"],
            platform=CarryingPlatform(),
            settings={"tts": tts},
        ) as place:
            await place.answer_to("hi")
            await place.answer_to("/cron ask every 1h look at the plants")
            task = asyncio.create_task(place.parts.app.speech.run())
            place.clock.ahead += 3_600
            await wait_until(lambda: len(studio.requests) == 2)
            await cancel_and_wait(task)
    assert studio.requests[-1]["input"] == report.strip()


@pytest.mark.parametrize("action", ["resume", "run"])
async def test_task_of_a_chat_that_blocked_the_bot_pauses_and_the_owner_is_notified(
    tmp_path: Path, action: str
) -> None:
    model = ScriptedProvider(["hello", "hello", "one", "two", "three"])
    async with with_timer(tmp_path, model, owner="chat:8") as place:
        owner = {"sender": Sender("8", "Bob")}
        await place.answer_to("hi", "8", **owner)
        await place.answer_to("hi")
        await place.answer_to("/cron ask every 1h look at the mail")
        for count in (1, 2):
            place.parts.platform.fail("1", ChatUnreachable("blocked"))
            place.clock.ahead += 3_600
            await wait_until(lambda count=count: len(model.requests) == 2 + count)
            await place.parts.until_count(count, "outbox", state="dead")
            await wait_until(lambda: place.parts.bus.lanes == 0)
        place.clock.ahead += 3_600
        assert await place.parts.until_stored("job", "reason", state="paused") == (
            "its message could not be delivered",
        )
        await wait_until(lambda: any("is paused" in text for text in place.texts("8")))
        assert len(model.requests) == 4
        assert sum("can't write" in text for text in place.texts("8")) == 1
        assert place.texts("8")[-1] == (
            "⚠️ Job 1, look at the mail, is paused: its last two runs did not reach the chat 1. "
            "`/cron resume 1` starts it again."
        )
        # The bot gets no notice when a group restores its rights.
        assert "ob 1" in await place.answer_to(f"/cron {action} 1", "8", **owner)
        place.clock.ahead += 3_600
        await wait_until(lambda: place.texts()[-1:] == ["three"])


async def test_slot_is_delivered_after_the_platform_accepts_it(tmp_path: Path) -> None:
    async with with_timer(tmp_path) as place:
        await place.answer_to("/cron add every 1h stretch")
        place.parts.platform.fail("1", Fault(MessageRefused("no")))
        place.clock.ahead += 3_600
        await place.parts.until_stored("outbox", state="dead", deadline_s=20)
        assert "ran, not delivered (no)" in await place.answer_to("/cron")
        place.parts.platform.fail("1", Fault(NotSent("down")))
        place.clock.ahead += 3_600
        await place.parts.until_stored("outbox", kind="notice", attempts=1, deadline_s=20)
        (job,) = await place.parts.database.transact(jobs.listed, None, None)
        (slot, *_) = await place.parts.database.transact(jobs.slots, job, 1)
        assert (slot.state, slot.delivered, slot.lost) == ("ran", False, None)


async def test_run_now_leaves_the_schedule_unchanged(tmp_path: Path) -> None:
    async with with_timer(tmp_path) as place:
        await place.answer_to("/cron add every 1h stretch")
        (before,) = await place.parts.stored("job", "slot_at")
        await place.answer_to("/cron run 1")
        await wait_until(lambda: "⏰ stretch" in place.texts())
        assert await place.parts.stored("job", "slot_at") == [before]


async def test_removed_user_receives_no_reminders(tmp_path: Path) -> None:
    async with with_timer(tmp_path) as place:
        await place.answer_to("/cron add in 5m tea")
    async with with_timer(tmp_path, allow=("8",), clock=Clock(400)) as place:
        assert await place.parts.until_stored("job", "reason", state="paused") == (
            "its creator no longer has access",
        )
        assert place.texts() == []


async def test_slots_missed_during_a_pause_are_skipped(tmp_path: Path) -> None:
    async with with_timer(tmp_path) as place:
        await place.answer_to("/cron add every 1h stretch")
        assert await place.answer_to("/cron pause 1") == "Job 1 paused."
        place.clock.ahead += 5 * 3_600
        await place.wait_until_idle()
        assert len(place.texts()) == 2
        assert await place.answer_to("/cron remove 1") == "Job 1 removed."
        assert await place.answer_to("/cron run 1") == "⚠️ There is no job 1 here."


async def test_jobs_belong_to_their_creator_and_are_limited(tmp_path: Path) -> None:
    from gateway.core.messages import Sender

    async with with_timer(tmp_path) as place:
        await place.answer_to("/cron add in 5m tea")
        other = Sender("8", "Bob")
        assert "tea" not in await place.answer_to("/cron", "8", sender=other)
        assert "no job 1 here" in await place.answer_to("/cron remove 1", "8", sender=other)
        assert "too often" in await place.answer_to("/cron add every 5s tea")
        for _ in range(49):
            await place.answer_to("/cron add in 1d x")
        assert "limit of 50 jobs (schedule.max\\_jobs)" in await place.answer_to(
            "/cron add in 1d x"
        )


async def test_answer_explains_how_a_time_was_read(tmp_path: Path) -> None:
    async with with_timer(tmp_path) as place:
        await place.answer_to("/cron zone Asia/Shanghai")
        text = await place.answer_to("/cron add every monday at 5 喝水")
        assert "every Monday at 05:00 (Asia/Shanghai), next " in text
        assert "05:00 CST" in text
        assert "5 is read as 05:00; for the afternoon, write 17:00" in text


async def test_changing_the_zone_names_jobs_that_keep_theirs(tmp_path: Path) -> None:
    async with with_timer(tmp_path) as place:
        await place.answer_to("/cron zone Asia/Shanghai")
        await place.answer_to("/cron add daily 9 tea")
        await place.answer_to("/cron add every 2h stretch")
        text = await place.answer_to("/cron zone Europe/Berlin")
        assert "keep the time zone they were created in" in text
        assert "daily at 09:00 (Asia/Shanghai)" in text
        assert "stretch" not in text
        assert "keep" not in await place.answer_to("/cron zone Asia/Shanghai")


async def test_deleting_a_person_deletes_their_jobs(tmp_path: Path) -> None:
    from gateway.store.repositories.user_data import erasure, export

    async with with_timer(tmp_path) as place:
        await place.answer_to("/cron zone Asia/Tokyo", "7")
        await place.answer_to("/cron add every 1h stretch", "7")
        await place.answer_to("/cron run 1", "7")
        await wait_until(lambda: "⏰ stretch" in place.texts("7"))
        await wait_until(lambda: not place.parts.sender.routes)
        database = place.parts.database
        assert "stretch" in (await database.transact(export.export_rows, "chat:7"))["jobs.jsonl"]
        await database.transact(erasure.erase, "chat:7", 0.0)
        for table in ("job", "job_run", "chat_clock", "outbox"):
            assert await place.parts.stored(table) == []


async def test_job_that_would_be_rejected_asks_no_person(tmp_path: Path) -> None:
    """A job belongs to one person, but a turn may answer several people."""
    from agent.security.taint.taint import BOTH
    from agent.types import assistant
    from gateway.core.messages import Sender
    from gateway.store.repositories.conversations import sessions

    schedule_call = tool_call("c1", "schedule", action="add", when="in 5m", text="tea")
    model = ScriptedProvider(["hello", assistant("", (schedule_call,)), "I could not."])
    async with running(tmp_path, model, owner="chat:7") as parts:
        await parts.bus.submit(chat_message("/queue join", "-1"))
        await parts.bus.submit(chat_message("hi", "-1"))
        await parts.platform.answers("-1", 2)
        # The job's text would be shown to the owner first.
        ((session,),) = await parts.stored("session", "id")
        await parts.database.transact(sessions.add_taint, session, BOTH)
        ann, bob = chat_message("tea", "-1"), chat_message("me too", "-1", sender=Sender("8"))
        await accept_messages(parts, ann, bob)
        *_, answer = await parts.platform.answers("-1", 3)
        assert answer.startswith("I could not.")
        assert await parts.stored("approval") == []
        assert await parts.stored("job") == []
    assert "several people are in this conversation" in model.requests[-1].messages[-1].text


async def test_job_is_validated_before_the_question_and_created_once(tmp_path: Path) -> None:
    from agent.types import assistant

    unread = tool_call("c1", "schedule", action="add", when="whenever", text="tea")
    schedule_call = tool_call("c2", "schedule", action="add", when="in 5m", text="tea")
    model = ScriptedProvider([assistant("", (unread, schedule_call)), "done"])
    async with with_timer(tmp_path, model, owner="chat:7") as place:
        assert (await place.answer_to("tea in five minutes")).startswith("done")
        assert len(await place.parts.stored("job", "id")) == 1
