"""Answers arrive in the chat and topic of the question, formatted for Telegram."""

import json

import pytest

from gateway.commands.table import COMMANDS
from tests.fakes.bot_text import MAX_UNITS, utf16_units
from tests.fakes.model_script import ReplyScript
from tests.gateway.end_to_end.gateway_process import GatewayProcess

pytestmark = pytest.mark.asyncio(loop_scope="module")
BOT_NAME = "@kore_test_bot"


async def test_text_is_answered_in_its_chat(gateway: GatewayProcess, chat: int) -> None:
    assert await gateway.answers_to(chat, "hi") == ["echo: hi"]
    assert gateway.methods(chat) == ["sendMessage"]
    assert len(gateway.model.requests) == 1


async def test_concurrent_chats_get_their_own_answers(gateway: GatewayProcess) -> None:
    chats = range(2001, 2021)
    gateway.model.latency_s = 0.05
    for n in (1, 2):
        for chat in chats:
            await gateway.api.user_says(chat, f"{n} of {chat}")
    await gateway.idle()
    assert {chat: gateway.api.answers(chat) for chat in chats} == {
        chat: [f"echo: 1 of {chat}", f"echo: 2 of {chat}"] for chat in chats
    }


async def test_markdown_arrives_as_entities(gateway: GatewayProcess, chat: int) -> None:
    gateway.model.script("A **bold** word, 😀 `code` and [a link](https://example.org/x).")
    await gateway.answers_to(chat, "go")
    (effect,) = [e for e in gateway.effects(chat) if e.method == "sendMessage"]
    assert effect.text == "A bold word, 😀 code and a link."
    raw = effect.text.encode("utf-16-le")
    shown = {
        entity["type"]: raw[2 * entity["offset"] :][: 2 * entity["length"]].decode("utf-16-le")
        for entity in effect.entities
    }
    assert shown == {"bold": "bold", "code": "code", "text_link": "a link"}
    assert "parse_mode" not in effect.params
    assert effect.params["link_preview_options"] == {"is_disabled": True}


async def test_long_answer_is_split_in_order(gateway: GatewayProcess, chat: int) -> None:
    words = [f"word{n}😀" for n in range(1_000)]
    gateway.model.script(" ".join(words))
    parts = await gateway.answers_to(chat, "much")
    assert len(parts) == 3
    assert all(utf16_units(part) <= MAX_UNITS for part in parts)
    assert " ".join(parts).split() == words


async def test_truncated_answer_is_noted_below(gateway: GatewayProcess, chat: int) -> None:
    gateway.model.script(ReplyScript(text="It began and", finish_reason="length"))
    assert await gateway.answers_to(chat, "tell") == [
        "It began and\n\n⚠️ The answer reached the model's length limit and was cut off."
    ]
    assert await gateway.answers_to(chat, "and?") != []
    assert "⚠️" not in json.dumps(gateway.model.requests[-1].body, ensure_ascii=False)


async def test_answer_stays_in_its_topic(gateway: GatewayProcess) -> None:
    group = -100_500
    for topic in (7, 8):
        await gateway.api.user_says(group, f"{BOT_NAME} to {topic}", user_id=5, thread_id=topic)
    await gateway.idle()
    sent = {e.thread_id: e.text for e in gateway.effects(group) if e.method == "sendMessage"}
    assert sent == {7: "echo: to 7", 8: "echo: to 8"}
    typing = {e.thread_id for e in gateway.effects(group) if e.method == "sendChatAction"}
    assert typing <= {7, 8}


async def test_group_message_is_answered_only_if_addressed_to_the_bot(
    gateway: GatewayProcess,
) -> None:
    group = -100_600
    await gateway.api.user_says(group, "lunch?", user_id=5)
    message = await gateway.api.user_says(group, f"{BOT_NAME} what about lunch", user_id=5)
    await gateway.idle()
    (effect,) = [e for e in gateway.effects(group) if e.method == "sendMessage"]
    assert (effect.text, effect.reply_to) == ("echo: what about lunch", message.message_id)


async def test_reply_to_the_bot_is_addressed_to_it(gateway: GatewayProcess) -> None:
    group = -100_700
    await gateway.answers_to(group, f"{BOT_NAME} hello", user_id=5)
    (ours,) = [shown for shown in gateway.api.chat(group) if shown.from_bot]
    await gateway.answers_to(group, "and now?", user_id=6, reply_to=ours.message_id)
    assert gateway.api.answers(group) == ["echo: hello", "echo: and now?"]


async def test_private_answer_is_not_a_reply(gateway: GatewayProcess, chat: int) -> None:
    await gateway.answers_to(chat, "hi")
    assert [e.reply_to for e in gateway.effects(chat) if e.method == "sendMessage"] == [None]


async def test_menu_offers_the_commands(gateway: GatewayProcess) -> None:
    await gateway.until(lambda: gateway.api.methods.commands)
    names = {command["command"] for command in gateway.api.methods.commands}
    # Telegram allows no hyphen in a command.
    assert names == {name.replace("-", "_") for name in COMMANDS}


async def test_bot_that_anyone_may_use_causes_a_warning(gateway: GatewayProcess) -> None:
    assert 'allow_from is ["*"]: anyone can use this bot' in gateway.output()
