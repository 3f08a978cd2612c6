"""Messages to people when the gateway is killed or stopped in the middle of its work."""

import signal

from tests.fakes.model_script import Call, ReplyScript
from tests.gateway.end_to_end.gateway_process import GatewayProcess

TEXT = "One two three four five six seven eight nine ten eleven twelve."


async def test_preview_is_finished_by_edit_after_a_kill(alone: GatewayProcess) -> None:
    await alone.start()
    # Longer than any test waits.
    alone.model.script(ReplyScript(text=TEXT * 20, pieces=400, chunk_delay_s=0.2))
    await alone.api.user_says(7, "go")
    # The second version proves that the id of the first was received and stored.
    await alone.until(lambda: "editMessageText" in alone.methods(7))
    await alone.kill()
    alone.model.script("The whole answer.")
    await alone.start()
    await alone.idle()
    assert alone.api.answers(7) == ["The whole answer."]
    assert len(alone.api.sends) == 1


async def test_kill_in_a_second_page_loses_and_repeats_nothing(alone: GatewayProcess) -> None:
    await alone.start()
    words = [f"word{n}" for n in range(900)]
    text = " ".join(words)
    # Longer than any test waits.
    slow = ReplyScript(text=text, pieces=400, chunk_delay_s=0.01, waits_at=390)
    alone.model.script(slow)
    await alone.api.user_says(7, "go")
    await alone.until(lambda: len(alone.api.answers(7)) == 2)
    # The second version of the second page proves that its id was received and stored.
    second = alone.api.chat(7)[-1].message_id
    await alone.until(
        lambda: any(e.message_id == second for e in alone.effects(7) if "edit" in e.method)
    )
    await alone.kill()
    alone.model.script(text)
    await alone.start()
    await alone.idle()
    assert " ".join(alone.api.answers(7)).split() == words
    assert len(alone.api.sends) == 2


async def test_activity_line_is_removed_after_a_kill(alone: GatewayProcess) -> None:
    await alone.start()
    look = (Call("list_dir", {"path": "."}),)
    alone.model.script(ReplyScript(text="I look.", tool_calls=look, pieces=2, chunk_delay_s=1.0))
    alone.model.script(ReplyScript(text="late", latency_s=60.0))
    await alone.api.user_says(7, "go")
    await alone.until(lambda: any("⏳" in answer for answer in alone.api.answers(7)))
    # The script of the second call is now used up.
    await alone.until(lambda: len(alone.model.requests) == 2)
    await alone.kill()
    alone.model.script("Found.")
    await alone.start()
    await alone.idle()
    assert alone.api.answers(7) == ["I look.\n\nFound."]


async def test_kill_before_the_first_word_leaves_only_a_draft(
    alone: GatewayProcess,
) -> None:
    await alone.start()
    alone.model.script(ReplyScript(text="late", latency_s=60.0))
    await alone.api.user_says(7, "go")
    # The script is now used up.
    await alone.until(lambda: alone.api.chats.drafts.get(7) and alone.model.requests)
    await alone.kill()
    assert alone.api.answers(7) == []
    alone.model.script("Here I am.")
    await alone.start()
    await alone.idle()
    assert alone.api.answers(7) == ["Here I am."]
    assert len(alone.api.sends) == 1


async def test_clean_restart_completes_turns_and_keeps_earlier_requests_unchanged(
    alone: GatewayProcess,
) -> None:
    await alone.start()
    write = Call("write_file", {"path": "a.txt", "content": "ä😀\n"})
    alone.model.script(ReplyScript(tool_calls=(write,)), ReplyScript(text="Done.", latency_s=0.5))
    await alone.api.user_says(7, "write ü")
    await alone.until(lambda: len(alone.model.requests) == 2)
    await alone.stop()
    assert alone.api.answers(7) == ["Done."]
    await alone.start()
    assert await alone.answers_to(7, "again") == ["Done.", "echo: again"]
    before, after = (received_request.raw for received_request in alone.model.requests[-2:])
    assert after.startswith(before[: before.rindex(b"]")])


async def test_stop_between_two_steps_is_completed_after_the_start(alone: GatewayProcess) -> None:
    await alone.start()
    write = Call("append_file", {"path": "list.txt", "content": "one\n"})
    alone.model.script(ReplyScript(tool_calls=(write,), waits_at=0))
    await alone.api.user_says(7, "go")
    await alone.until(lambda: alone.model.waiting)
    alone.signal(signal.SIGTERM)
    # The stop is noticed before the model calls the tool.
    await alone.api.wait_for(lambda: not alone.api.polling)
    alone.model.let_go()
    assert await alone.ended() == 0
    assert alone.api.answers(7) == []
    assert not (alone.workspace / "list.txt").exists()
    await alone.start()
    await alone.idle()
    assert alone.api.answers(7) == ["echo: go"]
    assert (alone.workspace / "list.txt").read_text() == "one\n"
    assert len(alone.model.requests) == 2


async def test_second_signal_ends_the_process_at_once_and_loses_nothing(
    alone: GatewayProcess,
) -> None:
    await alone.start()
    alone.model.script(ReplyScript(text="late", latency_s=60.0))
    await alone.api.user_says(7, "hi")
    await alone.until(lambda: alone.model.requests)
    alone.signal(signal.SIGTERM)
    await alone.api.wait_for(lambda: not alone.api.polling)
    alone.signal(signal.SIGTERM)
    assert await alone.ended() == 1
    await alone.start()
    await alone.idle()
    assert alone.api.answers(7) == ["echo: hi"]


async def test_messages_sent_during_downtime_are_answered_in_order(
    alone: GatewayProcess,
) -> None:
    for text in ("one", "two", "three"):
        await alone.api.user_says(7, text)
    async with alone:
        await alone.idle()
        assert alone.api.answers(7) == ["echo: one", "echo: two", "echo: three"]


async def test_completed_tool_does_not_run_again_after_a_kill(alone: GatewayProcess) -> None:
    await alone.start()
    write = Call("append_file", {"path": "log.txt", "content": "once\n"})
    alone.model.script(ReplyScript(tool_calls=(write,)), ReplyScript(text="x", latency_s=60.0))
    await alone.api.user_says(7, "go")
    await alone.until(lambda: len(alone.model.requests) == 2)
    await alone.kill()
    await alone.start()
    await alone.idle()
    assert (alone.workspace / "log.txt").read_text() == "once\n"
    assert alone.api.answers(7) == ["echo: go"]
    # The request whose answer was lost is repeated byte for byte.
    assert alone.model.requests[2].raw == alone.model.requests[1].raw


async def test_turn_without_progress_is_abandoned_and_can_be_replayed(
    alone: GatewayProcess,
) -> None:
    alone.model.mind = lambda body: ReplyScript(text="never", latency_s=60.0)
    await alone.api.user_says(7, "hi")
    for attempt in range(1, 4):
        await alone.start()
        await alone.until(lambda attempt=attempt: len(alone.model.requests) == attempt)  # type: ignore[misc]
        await alone.kill()
    alone.model.mind = lambda body: ReplyScript(text="at last")
    await alone.start()
    await alone.idle()
    (answer,) = alone.api.answers(7)
    assert "kore replay 1" in answer
    replayed = await alone.kore("replay", "1")
    assert (replayed.code, replayed.err) == (0, "")
    await alone.idle()
    assert alone.api.answers(7)[1:] == ["at last"]
