"""Messages that arrive while a turn runs: queued, joined, or passed to the turn."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from agent.context.history_validation import is_valid
from agent.events import Steered
from agent.types import assistant
from gateway.core.messages import InboundMessage, MessageOptions, QueueMode, Sender
from tests.fakes.gated import Gated
from tests.gateway.access.approvals import OWNER, Asking, change, question, seed
from tests.gateway.parts import (
    Parts,
    accept_messages,
    chat_message,
    console_message,
    load_history,
    running,
    wait_until,
)
from tests.gateway.stored import like
from tests.gateway.turns.paced import Paced, list_dir_reply


async def set_queue_mode(parts: Parts, mode: str = "steer") -> None:
    await accept_messages(parts, chat_message(f"/queue {mode}"))
    assert mode in (await parts.platform.answers("1", 1))[0]


async def test_message_steers_the_running_turn(tmp_path: Path) -> None:
    model = Paced(list_dir_reply(), "In green, then.")
    async with running(tmp_path, model) as parts:
        await set_queue_mode(parts)
        await accept_messages(parts, chat_message("paint it"))
        await model.wait_for_request(1)
        async with parts.service.watch("chat:bot:1") as events:
            await accept_messages(parts, chat_message("rather in green"))
            model.let_go(2)
            async with asyncio.timeout(30):
                async for event in events:
                    if isinstance(event, Steered):
                        break
                assert event == Steered("rather in green")
        assert (await parts.platform.answers("1", 2))[-1] == "Let me see.\n\nIn green, then."
        messages = model.requests[1].messages
        assert [m.role for m in messages] == ["user", "assistant", "tool", "user"]
        assert messages[-1].text == "rather in green"
        stored = await load_history(parts)
        assert [m.role for m in stored] == ["user", "assistant", "tool", "user", "assistant"]
        assert is_valid(stored)
        turns = len(await parts.stored("message", "turn_id", distinct=True))
        assert turns == 1
        assert len(model.requests) == 2


async def test_message_waits_for_its_own_turn_by_default(tmp_path: Path) -> None:
    model = Paced(list_dir_reply(), "one is done", "two is done")
    async with running(tmp_path, model) as parts:
        await accept_messages(parts, chat_message("one"))
        await model.wait_for_request(1)
        await accept_messages(parts, chat_message("two"))
        model.let_go(3)
        answers = await parts.platform.answers("1", 2)
        assert answers == ["Let me see.\n\none is done", "two is done"]


def screen_message(text: str, queue: QueueMode) -> InboundMessage:
    return replace(console_message(text), options=MessageOptions(queue=queue))


async def test_message_of_a_screen_steers_unless_it_is_queued(tmp_path: Path) -> None:
    model = Paced(list_dir_reply(), "In green.", "And in blue.")
    async with running(tmp_path, model) as parts:
        await accept_messages(parts, console_message("paint it"))
        await model.wait_for_request(1)
        await accept_messages(
            parts,
            screen_message("rather in green", "steer"),
            screen_message("then another in blue", "queue"),
            screen_message("a large one", "steer"),
        )
        model.let_go(2)
        await model.wait_for_request(3)
        assert model.requests[1].messages[-1].text == "rather in green"
        assert model.requests[2].messages[-1].text == "then another in blue"
        assert [m.text for m in model.requests[2].messages if m.role == "user"] == [
            "paint it",
            "rather in green",
            "then another in blue",
        ]
        model.let_go()


@pytest.mark.parametrize(("chosen", "texts"), [("queue", ["two"]), ("steer", ["two\n\nthree"])])
async def test_queue_mode_of_a_conversation_overrides_the_default_of_a_screen(
    tmp_path: Path, chosen: str, texts: list[str]
) -> None:
    model = Paced(list_dir_reply(), "one is done", "two is done", "three is done")
    async with running(tmp_path, model) as parts:
        await accept_messages(parts, console_message(f"/queue {chosen}"), console_message("one"))
        await model.wait_for_request(1)
        await accept_messages(parts, screen_message("two", "steer"), console_message("three"))
        model.let_go(2)
        await model.wait_for_request(3 if chosen == "queue" else 2)
        assert model.requests[-1].messages[-1].text == texts[-1]
        model.let_go(2)


async def test_steering_messages_after_the_last_call_are_answered_together(tmp_path: Path) -> None:
    model = Paced("one is done", "both are done")
    async with running(tmp_path, model) as parts:
        await accept_messages(parts, console_message("one"))
        await model.wait_for_request(1)
        await accept_messages(
            parts, screen_message("two", "steer"), screen_message("three", "steer")
        )
        model.let_go()
        await model.wait_for_request(2)
        assert model.requests[1].messages[-1].text == "two\n\nthree"
        model.let_go()


async def test_waiting_messages_are_joined_in_join_mode(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.turns.journal.BURST_S", 0.0)
    model = Gated()
    async with running(tmp_path, model) as parts:
        await set_queue_mode(parts, "join")
        await accept_messages(parts, chat_message("one"))
        await model.wait_for_text("one")
        await accept_messages(parts, chat_message("two"), chat_message("three"))
        model.let_go()
        answers = await parts.platform.answers("1", 3)
        assert answers[1:] == ["re: one", "re: two\n\nthree"]


async def test_burst_gets_one_answer_in_join_mode(tmp_path: Path) -> None:
    model = Paced("to one alone", "to both", "to all three")
    async with running(tmp_path, model) as parts:
        await set_queue_mode(parts, "join")
        await accept_messages(parts, chat_message("one"))
        await model.wait_for_request(1)
        await accept_messages(parts, chat_message("two"))
        model.let_go()
        await model.wait_for_request(2)
        await accept_messages(parts, chat_message("three"))
        model.let_go(2)
        assert (await parts.platform.answers("1", 2))[1:] == ["to all three"]
        assert [m.text for m in model.requests[-1].messages] == ["one", "two", "three"]
        stored = await load_history(parts)
        assert [m.role for m in stored] == ["user", "user", "user", "assistant"]
        assert await parts.count("inbox", turn_id=None) == 0


async def test_command_in_a_burst_keeps_its_place(tmp_path: Path) -> None:
    model = Paced("to one", "to three")
    async with running(tmp_path, model) as parts:
        await set_queue_mode(parts, "join")
        await accept_messages(parts, chat_message("one"))
        await model.wait_for_request(1)
        await accept_messages(parts, chat_message("/rename burst"), chat_message("three"))
        model.let_go(2)
        answers = await parts.platform.answers("1", 4)
        assert (answers[1], answers[3]) == ("to one", "to three")


async def test_messages_after_a_call_are_not_joined(tmp_path: Path) -> None:
    model = Paced(list_dir_reply(), "to one", "to two")
    async with running(tmp_path, model) as parts:
        await set_queue_mode(parts, "join")
        await accept_messages(parts, chat_message("one"))
        await model.wait_for_request(1)
        model.let_go()
        await model.wait_for_request(2)
        await accept_messages(parts, chat_message("two"))
        model.let_go(2)
        answers = await parts.platform.answers("1", 3)
        assert answers[1:] == ["Let me see.\n\nto one", "to two"]


async def test_burst_interrupted_by_a_crash_is_answered_as_a_whole(tmp_path: Path) -> None:
    model = Paced("void", "void", "to both")
    async with running(tmp_path, model) as parts:
        await set_queue_mode(parts, "join")
        await accept_messages(parts, chat_message("one"))
        await model.wait_for_request(1)
        await accept_messages(parts, chat_message("two"))
        model.let_go()
        await model.wait_for_request(2)
    model.let_go(2)
    async with running(tmp_path, model) as parts:
        await parts.platform.answers("1", 1)
        assert [m.text for m in model.requests[-1].messages] == ["one", "two"]
        assert [m.role for m in await load_history(parts)][:2] == ["user", "user"]


async def test_queue_mode_survives_new(tmp_path: Path) -> None:
    async with running(tmp_path, Gated()) as parts:
        await set_queue_mode(parts, "steer")
        await accept_messages(parts, chat_message("/new"))
        await parts.platform.answers("1", 2)
        await accept_messages(parts, chat_message("/queue"))
        assert "Messages sent while I work: `steer`" in (await parts.platform.answers("1", 3))[-1]


async def test_late_steering_message_is_answered_afterwards(tmp_path: Path) -> None:
    model = Gated()
    async with running(tmp_path, model) as parts:
        await set_queue_mode(parts)
        await accept_messages(parts, chat_message("one"))
        await model.wait_for_text("one")
        await accept_messages(parts, chat_message("two"), chat_message("three"))
        model.let_go()
        answers = await parts.platform.answers("1", 3)
        assert answers[1:] == ["re: one", "re: two\n\nthree"]


async def test_command_between_steering_messages_ends_steering(tmp_path: Path) -> None:
    model = Paced(list_dir_reply(), "done", "new one")
    async with running(tmp_path, model) as parts:
        await set_queue_mode(parts)
        await accept_messages(parts, chat_message("one"))
        await model.wait_for_request(1)
        await accept_messages(
            parts, chat_message("two"), chat_message("/new"), chat_message("three")
        )
        model.let_go(3)
        answers = await parts.platform.answers("1", 4)
        assert answers[1] == "Let me see.\n\ndone"
        assert answers[3] == "new one"
        assert [m.text for m in model.requests[1].messages if m.role == "user"] == ["one", "two"]
        assert [m.text for m in model.requests[2].messages] == ["three"]


async def test_steering_survives_a_crash_without_loss_or_repetition(tmp_path: Path) -> None:
    model = Paced(list_dir_reply(), "never")
    async with running(tmp_path, model) as parts:
        await set_queue_mode(parts)
        await accept_messages(parts, chat_message("one"))
        await model.wait_for_request(1)
        await accept_messages(parts, chat_message("two"))
        model.let_go()
        await model.wait_for_request(2)
    # The call id is the same, but its old result must not replace the new result.
    model = Paced(list_dir_reply(), "after all")
    model.let_go(2)
    async with running(tmp_path, model) as parts:
        answers = await parts.platform.answers("1", 1)
        assert answers == ["Let me see.\n\nLet me see.\n\nafter all"]
        assert [m.text for m in model.requests[0].messages if m.role == "user"] == ["one", "two"]
        stored = await load_history(parts)
        assert is_valid(stored)
        assert [m.text for m in stored if m.role == "user"] == ["one", "two"]
        assert await parts.count("inbox", turn_id=None) == 0


async def test_stop_ends_a_steered_turn_with_a_valid_history(tmp_path: Path) -> None:
    model = Paced(list_dir_reply(), "never")
    async with running(tmp_path, model) as parts:
        await set_queue_mode(parts)
        await accept_messages(parts, chat_message("one"))
        await model.wait_for_request(1)
        await accept_messages(parts, chat_message("two"))
        model.let_go()
        await model.wait_for_request(2)
        await accept_messages(parts, chat_message("/stop"))
        assert (await parts.platform.answers("1", 2))[-1].endswith("⏹ Stopped.")
        stored = await load_history(parts)
        assert is_valid(stored)
        assert [m.role for m in stored] == ["user", "assistant", "tool", "user", "assistant"]


async def test_steering_person_restricts_the_turn(tmp_path: Path) -> None:
    seed(tmp_path)
    model = Paced(list_dir_reply(), assistant("", (change("2"),)), "done")
    more = {"platform": Asking(), "owner": OWNER}
    group = {"private": False}
    async with running(tmp_path, model, **more) as parts:
        await accept_messages(parts, chat_message("/queue steer", **group))
        await parts.platform.answers("1", 1)
        await accept_messages(parts, chat_message("look", **group))
        await model.wait_for_request(1)
        await accept_messages(parts, chat_message("write it", sender=Sender("9", "Eve"), **group))
        model.let_go(3)
        await parts.platform.answers("1", 2)
        # A turn of only the owner would have asked for approval.
        assert await parts.count("approval") == 0
        assert "Not allowed" in (await load_history(parts))[-2].text
        ((taint,),) = await parts.stored("session", "taint")
        assert "untrusted" in taint


async def test_message_does_not_answer_an_open_question(tmp_path: Path) -> None:
    file = seed(tmp_path)
    model = Paced(assistant("", (change("1"),)), "done")
    more = {"platform": Asking(), "owner": OWNER}
    async with running(tmp_path, model, **more) as parts:
        await set_queue_mode(parts)
        await accept_messages(parts, chat_message("write"))
        model.let_go(2)
        prompt = await question(parts)
        await accept_messages(
            parts, chat_message("yes"), chat_message("y"), chat_message("allow once")
        )
        assert [q.nonce for q in await parts.service.list_approvals()] == [prompt.nonce]
        assert file.read_text() == "old\n"
        await parts.service.answer_approval(prompt.nonce, "once", OWNER)
        await wait_until(lambda: "done" in parts.platform.texts("1"))
        # The message steers the turn, which is still running.
        assert model.requests[1].messages[-1].text == "yes\n\ny\n\nallow once"
        assert file.read_text() == "new\n"


@pytest.mark.parametrize("command", ["/status", "/help", "/cost", "/queue", "/start"])
async def test_read_only_command_bypasses_a_running_turn(tmp_path: Path, command: str) -> None:
    model = Gated()
    async with running(tmp_path, model) as parts:
        await accept_messages(parts, chat_message("one"))
        await model.wait_for_text("one")
        await accept_messages(parts, chat_message("two"), chat_message(command))
        result, *_ = await parts.platform.answers("1", 1)
        assert "broke" not in result
        model.let_go()
        await wait_until(lambda: parts.platform.texts("1")[-2:] == ["re: one", "re: two"])


async def test_read_only_command_bypasses_an_open_question(tmp_path: Path) -> None:
    seed(tmp_path)
    model = Paced(assistant("", (change("1"),)), "done")
    async with running(tmp_path, model, platform=Asking(), owner=OWNER) as parts:
        await accept_messages(parts, chat_message("write"))
        model.let_go(2)
        await question(parts)
        await accept_messages(parts, chat_message("/status"))
        await wait_until(lambda: any(t.startswith("Kore ") for t in parts.platform.texts("1")))
        assert len(await parts.service.list_approvals()) == 1


async def test_new_withdraws_an_open_question(tmp_path: Path) -> None:
    file = seed(tmp_path)
    model = Paced(assistant("", (change("1"),)), "fresh")
    async with running(tmp_path, model, platform=Asking(), owner=OWNER) as parts:
        await accept_messages(parts, chat_message("write"))
        model.let_go(2)
        await question(parts)
        await accept_messages(parts, chat_message("/new"), chat_message("hello"))
        await wait_until(lambda: "fresh" in parts.platform.texts("1"))
        assert await parts.service.list_approvals() == []
        assert file.read_text() == "old\n"
        assert [m.text for m in model.requests[1].messages] == ["hello"]


async def test_queue_shows_waiting_messages_and_rejects_an_unknown_mode(tmp_path: Path) -> None:
    model = Gated()
    async with running(tmp_path, model) as parts:
        await accept_messages(parts, chat_message("one"))
        await model.wait_for_text("one")
        await accept_messages(parts, chat_message("two `three`"), chat_message("/queue"))
        (shown,) = await parts.platform.answers("1", 1)
        assert "1 queued:\n- `` two `three` ``" in shown
        assert "Messages sent while I work: `queue`" in shown
        await accept_messages(parts, chat_message("/queue fast"))
        assert "Still using `queue`" in (await parts.platform.answers("1", 2))[1]


async def test_console_turn_names_the_newest_answered_message(tmp_path: Path) -> None:
    model = Paced(list_dir_reply(), "done")
    async with running(tmp_path, model) as parts:
        await parts.service.submit(console_message("/queue steer"))
        await parts.until_stored("session_choice", name="queue", value="steer")
        await parts.service.submit(console_message("one"))
        await model.wait_for_request(1)
        second = console_message("two")
        await parts.service.submit(second)
        model.let_go(2)
        row = await parts.until_stored("outbox", "event_id", body=like("%done%"))
        assert row == (second.event_id,)
