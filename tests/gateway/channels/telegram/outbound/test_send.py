import asyncio
import socket
import traceback
from dataclasses import replace

import pytest

from gateway.channels.base import (
    Ambiguous,
    BadFormat,
    ChannelRateLimited,
    ChatUnreachable,
    MessageNotFound,
    MessageRefused,
    NotSent,
    PreviewContent,
    SendError,
    TopicNotFound,
)
from gateway.channels.rate_limiter import RateLimiter
from gateway.channels.telegram.channel import TelegramChannel
from gateway.channels.telegram.outbound.render import REPEAT_NOTE
from gateway.channels.telegram.spec import RATES
from gateway.core.messages import Entity, OutboundMessage, OutboundPart, Route
from tests.fakes import faults
from tests.fakes.bot_api import TOKEN, BotApi
from tests.gateway.channels.telegram.conftest import QUICK

ROUTE = Route("telegram", "123456", "7")


def message(
    text: str = "hello", *entities: Entity, route: Route = ROUTE, reply_to: str | None = None
) -> OutboundMessage:
    return OutboundMessage("d1", 0, route, OutboundPart(text, entities), reply_to=reply_to)


async def preview(channel: TelegramChannel, growing: PreviewContent, shown: str | None) -> str:
    """Show the last page."""
    return await channel.preview(ROUTE, channel.pages(growing)[-1], shown)


async def test_text_and_entities_arrive_in_their_topic(
    bot_api: BotApi, channel: TelegramChannel
) -> None:
    topic = Route("telegram", "123456", "-7", "3")
    (part,) = channel.render("😀 **bold** [link](https://x.y)")
    sent_id = await channel.send(OutboundMessage("d1", 0, topic, part))
    (effect,) = bot_api.sends
    assert (effect.chat_id, str(effect.message_id), effect.text) == (-7, sent_id, part.text)
    assert effect.params["message_thread_id"] == 3
    assert effect.params["link_preview_options"] == {"is_disabled": True}
    assert "parse_mode" not in effect.params
    assert [e["type"] for e in effect.params["entities"]] == ["bold", "text_link"]


async def test_reply_to_a_deleted_message_is_sent(
    bot_api: BotApi, channel: TelegramChannel
) -> None:
    await channel.send(message(reply_to="404"))
    assert bot_api.sends[0].params["reply_parameters"] == {
        "message_id": 404,
        "allow_sending_without_reply": True,
    }


async def test_edit_replaces_the_text_and_is_repeatable(
    bot_api: BotApi, channel: TelegramChannel
) -> None:
    shown = await channel.send(message("draft"))
    final = replace(message("final"), provider_message_id=shown, maybe_duplicate=True)
    assert await channel.send(final) == shown
    assert await channel.send(final) == shown
    assert bot_api.answers(7) == ["final"]


async def test_possible_repeat_is_marked_and_keeps_its_format(
    bot_api: BotApi, channel: TelegramChannel
) -> None:
    await channel.send(replace(message("bold", Entity("bold", 0, 4)), maybe_duplicate=True))
    (effect,) = bot_api.sends
    assert effect.text == f"{REPEAT_NOTE}bold"
    (entity,) = effect.params["entities"]
    assert effect.text[entity["offset"] :] == "bold"


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        (faults.reset, Ambiguous),
        (faults.lost_response, Ambiguous),
        (faults.truncated, Ambiguous),
        (faults.hang, Ambiguous),
        (faults.status(500), Ambiguous),
        (faults.status(502), Ambiguous),
        (faults.status(401), NotSent),
        (faults.status(403), ChatUnreachable),
        (faults.status(400, description="Bad Request: chat not found"), ChatUnreachable),
        (faults.status(400, description="Bad Request: can't parse entities: x"), BadFormat),
        (faults.status(400, description="Bad Request: message is too long"), MessageRefused),
        (faults.status(400, description="Bad Request: message thread not found"), TopicNotFound),
        (faults.status(400, description="Bad Request: TOPIC_CLOSED"), TopicNotFound),
        (faults.status(400, description="Bad Request: PEER_ID_INVALID"), ChatUnreachable),
        (faults.status(400, description="Bad Request: CHAT_SEND_PLAIN_FORBIDDEN"), ChatUnreachable),
    ],
    ids=lambda value: getattr(value, "description", None) or getattr(value, "kind", None),
)
async def test_each_failure_maps_to_its_error(
    bot_api: BotApi, channel: TelegramChannel, fault: faults.Fault, error: type[SendError]
) -> None:
    bot_api.fail("sendMessage", fault)
    with pytest.raises(error) as info:
        await channel.send(message())
    assert type(info.value) is error
    assert TOKEN.partition(":")[2] not in f"{info.value} {info.value.__cause__!r}"


async def test_probe_checks_the_server_without_sending(
    bot_api: BotApi, channel: TelegramChannel
) -> None:
    await channel.probe()
    for fault in (faults.status(502), faults.reset, faults.status(429, retry_after=9)):
        bot_api.fail("getMe", fault)
        with pytest.raises(NotSent):
            await channel.probe()
    assert bot_api.sends == []


async def test_token_is_not_in_tracebacks_of_malformed_responses() -> None:
    async def babble(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"NONSENSE 9 9 9\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(babble, "127.0.0.1", 0) as server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        channel = TelegramChannel(replace(QUICK, base_url=url), gate=RateLimiter(None))
        with pytest.raises(Ambiguous) as info:
            await channel.send(message())
        await channel.aclose()
    assert TOKEN.partition(":")[2] not in "".join(traceback.format_exception(info.value))


async def test_message_without_a_connection_is_not_sent() -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{closed.getsockname()[1]}"
        channel = TelegramChannel(replace(QUICK, base_url=url), gate=RateLimiter(None))
        with pytest.raises(NotSent, match="no connection"):
            await channel.send(message())
        await channel.aclose()


async def test_edit_of_a_deleted_message_raises_message_not_found(channel: TelegramChannel) -> None:
    with pytest.raises(MessageNotFound):
        await channel.send(replace(message(), provider_message_id="404"))


async def test_invalid_entity_raises_bad_format(channel: TelegramChannel) -> None:
    with pytest.raises(BadFormat):
        await channel.send(message("hi", Entity("bold", 0, 99)))


async def test_global_flood_limit_pauses_every_chat(bot_api: BotApi) -> None:
    channel = TelegramChannel(
        replace(QUICK, base_url=bot_api.url), gate=RateLimiter(RATES.all_traffic)
    )
    bot_api.fail("sendMessage", faults.status(429, retry_after=30), times=3)
    for chat in ("7", "8", "9"):
        with pytest.raises(ChannelRateLimited):
            await channel.send(replace(message(), route=replace(ROUTE, chat_id=chat)))
    await channel.typing(replace(ROUTE, chat_id="10"))
    await channel.aclose()
    assert bot_api.calls == ["sendMessage"] * 3


async def test_flood_limit_pauses_the_chat_and_names_the_duration(bot_api: BotApi) -> None:
    gate = RateLimiter(RATES.all_traffic)
    channel = TelegramChannel(replace(QUICK, base_url=bot_api.url), gate=gate)
    bot_api.fail("sendMessage", faults.status(429, retry_after=30))
    with pytest.raises(ChannelRateLimited) as info:
        await channel.send(message())
    assert info.value.retry_after_s == 30
    assert 29 < gate.wait_s("7", group=False) <= 31
    assert not gate.try_acquire("7", group=False)
    await channel.typing(ROUTE)
    await channel.aclose()
    assert bot_api.calls == ["sendMessage"]


async def test_admitted_message_does_not_wait_again(bot_api: BotApi) -> None:
    gate = RateLimiter(RATES.all_traffic)
    channel = TelegramChannel(replace(QUICK, base_url=bot_api.url), gate=gate)
    await channel.admit(ROUTE)
    gate.penalise("7", 3600)
    async with asyncio.timeout(30):
        await channel.send(message())
    await channel.aclose()
    assert bot_api.answers(7) == ["hello"]


async def test_growing_answer_is_one_message(bot_api: BotApi, channel: TelegramChannel) -> None:
    shown = await preview(channel, PreviewContent("The **ans"), None)
    assert await preview(channel, PreviewContent("The **answer** is"), shown) == shown
    assert await preview(channel, PreviewContent("The **answer** is"), shown) == shown
    assert bot_api.answers(7) == ["The answer is"]
    assert await preview(channel, PreviewContent("long " * 8000), shown) == shown
    final = channel.render("long " * 4000)
    await channel.send(replace(message(), content=final[0], provider_message_id=shown))
    assert bot_api.answers(7) == [final[0].text]


async def test_unchanged_preview_is_not_sent(bot_api: BotApi, channel: TelegramChannel) -> None:
    shown = await preview(channel, PreviewContent("long " * 8000), None)
    for more in range(1, 5):
        assert await preview(channel, PreviewContent("long " * (8000 + more)), shown) == shown
    assert bot_api.calls == ["sendMessage"]
    await preview(channel, PreviewContent("long " * 8000, "⏳ Thinking"), shown)
    assert bot_api.calls == ["sendMessage", "editMessageText"]


async def test_final_text_equal_to_the_preview_is_not_sent(
    bot_api: BotApi, channel: TelegramChannel
) -> None:
    shown = await preview(channel, PreviewContent("The **answer**"), None)
    (part,) = channel.render("The **answer**")
    final = replace(message(), content=part, provider_message_id=shown)
    assert await channel.send(final) == shown
    assert bot_api.calls == ["sendMessage"]
    bot_api.fail("editMessageText", faults.lost_response)
    with pytest.raises(Ambiguous):
        await preview(channel, PreviewContent("The **answer** is"), shown)
    await channel.send(final)
    assert bot_api.calls == ["sendMessage", "editMessageText", "editMessageText"]
    assert bot_api.answers(7) == ["The answer"]


async def test_all_pages_except_the_last_are_final(channel: TelegramChannel) -> None:
    text = "\n\n".join(f"**Paragraph {n}** " + "word " * 100 for n in range(20))
    final = channel.render(text)
    pages = channel.pages(PreviewContent(text, "⏳ Thinking"))
    assert len(final) == 3
    assert pages[:-1] == final[:-1]
    assert pages[-1].text == f"{final[-1].text}\n\n⏳ Thinking"
    assert channel.pages(PreviewContent(text)) == final
    assert channel.pages(PreviewContent(" ")) == ()


async def test_previews_are_dropped_at_the_rate_limit(bot_api: BotApi) -> None:
    channel = TelegramChannel(
        replace(QUICK, base_url=bot_api.url), gate=RateLimiter(RATES.all_traffic)
    )
    shown = await preview(channel, PreviewContent("0"), None)
    for n in range(1, 4):
        assert await preview(channel, PreviewContent(str(n)), shown) == shown
    with pytest.raises(ChannelRateLimited):
        await preview(channel, PreviewContent("4"), shown)
    with pytest.raises(ChannelRateLimited):
        await preview(channel, PreviewContent("new"), None)
    await channel.send(replace(message("final"), provider_message_id=shown))
    await channel.aclose()
    assert len(bot_api.calls) == 5
    assert bot_api.answers(7) == ["final"]


async def test_typing_is_shown(bot_api: BotApi, channel: TelegramChannel) -> None:
    await channel.typing(Route("telegram", "123456", "-7", "3"))
    assert bot_api.calls == ["sendChatAction"]


async def test_activity_line_is_below_the_preview(
    bot_api: BotApi, channel: TelegramChannel
) -> None:
    await preview(channel, PreviewContent("**One**", "⏳ Reading `x.py`"), None)
    (effect,) = bot_api.sends
    assert effect.text == "One\n\n⏳ Reading x.py"
    marked = [effect.text[e["offset"] :][: e["length"]] for e in effect.params["entities"]]
    assert marked == ["One", "x.py"]
    long = "word " * 8000
    await preview(channel, PreviewContent(long, "⏳ Thinking"), None)
    assert bot_api.answers(7)[1].endswith("word\n\n⏳ Thinking")
    await preview(channel, PreviewContent(long), None)
    assert bot_api.answers(7)[2].endswith("word\n\n…")


async def test_draft_is_not_a_message(bot_api: BotApi, channel: TelegramChannel) -> None:
    await channel.show_draft(ROUTE, "⏳ Reading `x.py`", 5)
    assert bot_api.chats.drafts == {7: "⏳ Reading x.py"}
    assert bot_api.answers(7) == []
    await channel.send(message("done"))
    assert bot_api.chats.drafts == {}


async def test_draft_in_a_topic_has_a_stop_button(
    bot_api: BotApi, channel: TelegramChannel
) -> None:
    await channel.show_draft(replace(ROUTE, thread_id="3"), "⏳ Thinking", 5)
    assert bot_api.chats.stoppable == {7: {"draft_id": 5, "message_thread_id": 3}}


async def test_answer_in_direct_messages_names_their_topic(
    bot_api: BotApi, channel: TelegramChannel
) -> None:
    topic = Route("telegram", "123456", "-7", "direct-77")
    await channel.send(message(route=topic))
    (effect,) = bot_api.sends
    assert effect.params["direct_messages_topic_id"] == 77
    assert "message_thread_id" not in effect.params
    await channel.typing(topic)
    assert bot_api.calls == ["sendMessage"]


async def test_groups_get_no_drafts(bot_api: BotApi, channel: TelegramChannel) -> None:
    await channel.show_draft(Route("telegram", "123456", "-7"), "⏳ Thinking", 5)
    assert bot_api.calls == []


@pytest.mark.parametrize("code", [400, 404])
async def test_drafts_are_not_retried_on_a_server_without_them(bot_api: BotApi, code: int) -> None:
    settings = replace(QUICK, base_url=bot_api.url, streaming="drafts")
    channel = TelegramChannel(settings, gate=RateLimiter(None))
    assert channel.streaming(ROUTE) == "drafts"
    bot_api.fail("sendMessageDraft", faults.status(code, description="Not Found: method not found"))
    for _ in range(2):
        await channel.show_draft(ROUTE, "⏳ Thinking", 5)
    assert bot_api.calls == ["sendMessageDraft"]
    assert channel.streaming(ROUTE) == "edits"
    await channel.aclose()
