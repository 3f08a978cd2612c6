"""A group becomes a supergroup: its session continues there, regardless of concurrent events."""

from tests.fakes.model_script import ReplyScript
from tests.gateway.end_to_end.gateway_process import GatewayProcess

GROUP, SUPER = -70, -100_070
TEXT = "One two three four five six seven eight nine ten eleven twelve."


async def test_conversation_continues_in_the_supergroup(alone: GatewayProcess) -> None:
    await alone.start()
    await alone.answers_to(GROUP, "/rename Garden", chat_type="group")
    await alone.answers_to(GROUP, "/new", chat_type="group")
    await alone.answers_to(GROUP, "@kore_test_bot first", chat_type="group")
    alone.api.group_becomes(GROUP, SUPER)
    await alone.answers_to(SUPER, "@kore_test_bot second")
    text = alone.model.requests[-1].raw.decode()
    assert "first" in text
    assert "second" in text
    (answer,) = [shown for shown in alone.api.chat(SUPER) if shown.from_bot]
    question = next(shown for shown in alone.api.chat(SUPER) if "second" in shown.text)
    assert (answer.text, answer.reply_to) == ("echo: second", question.message_id)


async def test_running_answer_arrives_in_the_supergroup_after_a_kill(
    alone: GatewayProcess,
) -> None:
    await alone.start()
    alone.model.script(ReplyScript(text=TEXT, pieces=40, waits_at=20))
    await alone.api.user_says(GROUP, "@kore_test_bot go", chat_type="group")
    await alone.until(lambda: "sendMessage" in alone.methods(GROUP))
    # Only a rejected send reveals the new id, and the preview is in the old group.
    alone.api.group_becomes(GROUP, SUPER, tell=False)
    alone.model.let_go()
    await alone.until(lambda: alone.api.answers(SUPER))
    await alone.idle()
    assert alone.api.answers(SUPER) == [TEXT]
    await alone.kill()
    await alone.start()
    await alone.answers_to(SUPER, "@kore_test_bot again")
    assert "go" in alone.model.requests[-1].raw.decode()
    assert alone.api.answers(SUPER) == [TEXT, "echo: again"]


async def test_migration_right_before_a_kill_is_not_lost(
    alone: GatewayProcess,
) -> None:
    await alone.start()
    await alone.answers_to(GROUP, "@kore_test_bot first", chat_type="group")
    alone.api.group_becomes(GROUP, SUPER)
    await alone.until(lambda: not alone.api.pending_updates)
    await alone.kill()
    await alone.start()
    await alone.answers_to(SUPER, "@kore_test_bot second")
    assert "first" in alone.model.requests[-1].raw.decode()
    assert alone.api.answers(SUPER) == ["echo: second"]
