"""A slow answer is a single message that grows."""

import pytest

from gateway.channels.telegram.outbound.render import PAGE_NOTE, PREVIEW_NOTE
from gateway.turns.commit import ENDS_ABOVE
from tests.fakes.faults import lost_response
from tests.fakes.model_script import Break, ReplyScript
from tests.gateway.end_to_end.gateway_process import GatewayProcess

pytestmark = pytest.mark.asyncio(loop_scope="module")
TEXT = "One two three four five six seven eight nine ten eleven twelve."


def slow(text: str = TEXT, every_s: float = 0.3, **more: object) -> ReplyScript:
    return ReplyScript(text=text, pieces=4, chunk_delay_s=every_s, **more)  # type: ignore[arg-type]


async def test_slow_answer_grows_in_one_message(gateway: GatewayProcess, chat: int) -> None:
    gateway.model.script(slow(waits_at=3))
    await gateway.api.user_says(chat, "go")
    await gateway.until(lambda: gateway.api.answers(chat))
    gateway.model.let_go()
    await gateway.idle()
    assert gateway.api.answers(chat) == [TEXT]
    effects = gateway.effects(chat)
    assert gateway.methods(chat) == ["sendMessage", "editMessageText"]
    shown = [e for e in effects if e.method != "sendChatAction"]
    assert {e.message_id for e in shown} == {shown[0].message_id}
    texts = [e.text or "" for e in shown]
    assert all(TEXT.startswith(text) for text in texts)
    assert len(texts[0]) < len(TEXT)
    assert all(e.params["link_preview_options"] == {"is_disabled": True} for e in shown)


async def test_typing_is_shown_while_the_model_is_silent(
    gateway: GatewayProcess, chat: int
) -> None:
    gateway.model.script(ReplyScript(text="late", waits_at=0))
    await gateway.api.user_says(chat, "go")
    await gateway.until(lambda: gateway.effects(chat))
    assert gateway.effects(chat)[0].method == "sendChatAction"
    gateway.model.let_go()
    await gateway.idle()
    assert gateway.api.answers(chat) == ["late"]


async def test_long_answer_streams_into_further_messages(
    gateway: GatewayProcess, chat: int
) -> None:
    words = [f"word{n}" for n in range(1_200)]
    begun = gateway.api.calls.count("editMessageText")
    gateway.model.script(slow(" ".join(words), waits_at=4))
    await gateway.api.user_says(chat, "go")
    await gateway.until(lambda: len(gateway.api.answers(chat)) == 2)
    gateway.model.let_go()
    await gateway.idle()
    assert " ".join(gateway.api.answers(chat)).split() == words
    effects = gateway.effects(chat)
    sent = [e.message_id for e in effects if e.method == "sendMessage"]
    assert [shown.message_id for shown in gateway.api.chat(chat) if shown.from_bot] == sent
    # No edit was rejected as unchanged.
    edits = [e for e in effects if e.method == "editMessageText"]
    assert gateway.api.calls.count("editMessageText") - begun == len(edits)


async def test_preview_longer_than_the_answer_is_marked(gateway: GatewayProcess, chat: int) -> None:
    # Different words, because a model that repeats a sentence is cut off.
    long = " ".join(f"unkept{n}" for n in range(900))
    gateway.model.script(slow(long, waits_at=4, breaks=Break("reset", after=5)))
    gateway.model.script(slow())
    await gateway.api.user_says(chat, "go")
    await gateway.until(lambda: len(gateway.api.answers(chat)) == 2)
    gateway.model.let_go()
    await gateway.idle()
    assert gateway.api.answers(chat) == [TEXT, ENDS_ABOVE]


async def test_lost_second_page_is_repeated_with_a_mark(gateway: GatewayProcess, chat: int) -> None:
    words = [f"word{n}" for n in range(1_200)]
    gateway.model.script(slow(" ".join(words), waits_at=4))
    await gateway.api.user_says(chat, "go")
    await gateway.until(lambda: gateway.api.answers(chat))
    gateway.api.fail("sendMessage", lost_response)
    await gateway.until(lambda: len(gateway.api.answers(chat)) == 2)
    gateway.model.let_go()
    await gateway.idle()
    first, stray, second, *rest = gateway.api.answers(chat)
    assert second.startswith(PAGE_NOTE)
    assert second.removeprefix(PAGE_NOTE).startswith(stray[:100])
    assert " ".join([first, second.removeprefix(PAGE_NOTE), *rest]).split() == words


async def test_lost_preview_is_repeated_with_a_mark(gateway: GatewayProcess, chat: int) -> None:
    gateway.api.fail("sendMessage", lost_response)
    gateway.model.script(slow())
    stray, answer = await gateway.answers_to(chat, "go")
    assert TEXT.startswith(stray)
    assert answer == f"{PREVIEW_NOTE}{TEXT}"


async def test_group_preview_is_a_reply(gateway: GatewayProcess) -> None:
    group = -100_800
    gateway.model.script(slow())
    user_message = await gateway.api.user_says(group, "@kore_test_bot go", user_id=5)
    await gateway.idle()
    assert gateway.api.answers(group) == [TEXT]
    (shown,) = [message for message in gateway.api.chat(group) if message.from_bot]
    assert shown.reply_to == user_message.message_id


async def test_silent_turn_shows_a_draft_and_then_one_message(
    gateway: GatewayProcess, chat: int
) -> None:
    gateway.model.script(ReplyScript(text="late", waits_at=0))
    await gateway.api.user_says(chat, "go")
    await gateway.until(lambda: gateway.api.chats.drafts.get(chat))
    assert gateway.api.chats.drafts[chat] == "⏳ Thinking"
    gateway.model.let_go()
    await gateway.idle()
    assert gateway.methods(chat) == ["sendRichMessageDraft", "sendMessage"]
    assert gateway.api.answers(chat) == ["late"]
    assert chat not in gateway.api.chats.drafts


async def test_stop_below_a_draft_stops_the_turn(gateway: GatewayProcess, chat: int) -> None:
    gateway.model.script(ReplyScript(text="late", waits_at=0))
    await gateway.api.user_says(chat, "go")
    await gateway.until(lambda: gateway.api.chats.stoppable.get(chat))
    await gateway.api.user_stops(chat)
    await gateway.until(lambda: gateway.api.answers(chat))
    await gateway.idle()
    assert "late" not in "".join(gateway.api.answers(chat))
    gateway.model.let_go()


async def test_very_long_answer_is_its_beginning_and_a_file(
    gateway: GatewayProcess, chat: int
) -> None:
    text = "\n\n".join(f"Paragraph {n}: " + "word " * 60 for n in range(100))
    gateway.model.script(ReplyScript(text=text))
    await gateway.api.user_says(chat, "go")
    await gateway.idle()
    assert [e.method for e in gateway.effects(chat) if e.method.startswith("send")][-4:] == [
        *["sendMessage"] * 3,
        "sendDocument",
    ]
    assert gateway.api.answers(chat)[0].startswith("Paragraph 0: word")
