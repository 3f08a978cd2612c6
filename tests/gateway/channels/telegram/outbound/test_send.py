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
from gateway.channels.telegram.outbound.render import REPEAT_NOTE, render
from gateway.channels.telegram.outbound.send import RichSupport
from gateway.channels.telegram.spec import RATES
from gateway.core.link_defusing import defuse_part
from gateway.core.messages import Entity, OutboundMessage, OutboundPart, Route
from tests.fakes import faults
from tests.fakes.bot_api import TOKEN, BotApi
from tests.gateway.channels.telegram.conftest import QUICK

ROUTE = Route("telegram", "123456", "7")
OTHER_ROUTE = Route("telegram", "123456", "8")
THINKING = PreviewContent("", "⏳ Thinking")
TABLE = "Sizes:\n\n| Name | Size |\n|:--|--:|\n| **tea** | 1 |\n| milk | 22 |\n\nThat is all."


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
    await channel.show_draft(ROUTE, PreviewContent("", "⏳ Reading `x.py`"), 5)
    assert bot_api.chats.drafts == {7: "⏳ Reading x.py"}
    assert bot_api.answers(7) == []
    await channel.send(message("done"))
    assert bot_api.chats.drafts == {}


async def test_draft_in_a_topic_has_a_stop_button(
    bot_api: BotApi, channel: TelegramChannel
) -> None:
    await channel.show_draft(replace(ROUTE, thread_id="3"), THINKING, 5)
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


@pytest.mark.counterpart("Telegram")
async def test_draft_shows_its_status_as_a_thinking_block(
    bot_api: BotApi, channel: TelegramChannel
) -> None:
    await channel.show_draft(ROUTE, PreviewContent("So **far**", "⏳ Reading `x.py`"), 5)
    (effect,) = bot_api.sent
    assert effect.method == "sendRichMessageDraft"
    code = {"type": "code", "text": "x.py"}
    assert effect.params["rich_message"]["blocks"] == [
        {"type": "paragraph", "text": ["So ", {"type": "bold", "text": "far"}]},
        {"type": "thinking", "text": ["⏳ Reading ", code]},
    ]
    assert effect.params["can_stop"] is True


def answer(markdown: str, shown: str | None = None) -> OutboundMessage:
    (part,) = render(markdown)
    return OutboundMessage("d1", 0, ROUTE, part, provider_message_id=shown)


@pytest.mark.counterpart("Telegram")
async def test_table_is_a_rich_message(bot_api: BotApi, channel: TelegramChannel) -> None:
    sent_id = await channel.send(answer(TABLE))
    (effect,) = bot_api.sends
    assert (effect.method, str(effect.message_id)) == ("sendRichMessage", sent_id)
    first, table, last = effect.params["rich_message"]["blocks"]
    assert (first["text"], last["text"]) == ("Sizes:", "That is all.")
    bold = {"type": "bold", "text": "tea"}
    assert [[cell["text"] for cell in row] for row in table["cells"]] == [
        ["Name", "Size"],
        [bold, "1"],
        ["milk", "22"],
    ]
    assert [cell["align"] for cell in table["cells"][0]] == ["left", "right"]
    assert bot_api.answers(7) == ["Sizes:\nName | Size\ntea | 1\nmilk | 22\nThat is all."]


async def test_text_without_tables_and_formulas_is_no_rich_message(
    bot_api: BotApi, channel: TelegramChannel
) -> None:
    await channel.send(answer("# Tea\n\nGreen, $x^2$ and `code`"))
    assert bot_api.calls == ["sendMessage"]


@pytest.mark.counterpart("Telegram")
async def test_missing_rich_messages_are_remembered_for_all_bots_of_the_server(
    bot_api: BotApi,
) -> None:
    bot_api.methods.knows_rich = False
    settings, server = replace(QUICK, base_url=bot_api.url), RichSupport()
    for _ in range(2):
        channel = TelegramChannel(settings, gate=RateLimiter(None), rich=server)
        await channel.send(answer(TABLE))
        await channel.aclose()
    assert bot_api.calls == ["sendRichMessage", "sendMessage", "sendMessage"]
    assert [effect.text for effect in bot_api.sends] == [render(TABLE)[0].text] * 2
    assert [e["type"] for e in bot_api.sends[0].params["entities"]] == ["pre"]


async def test_refused_content_is_sent_as_text_and_tried_again(
    bot_api: BotApi, channel: TelegramChannel
) -> None:
    reason = "Bad Request: RICH_MESSAGE_CONTENT_REQUIRED"
    bot_api.fail("sendRichMessage", faults.status(400, description=reason))
    await channel.send(answer(TABLE))
    await channel.send(answer(TABLE))
    assert bot_api.calls == ["sendRichMessage", "sendMessage", "sendRichMessage"]
    assert len(bot_api.answers(7)) == 2


@pytest.mark.parametrize("code", [403, 404])
async def test_refusal_of_both_forms_is_the_refusal_of_the_text(
    bot_api: BotApi, channel: TelegramChannel, code: int
) -> None:
    for method in ("sendRichMessage", "sendMessage"):
        bot_api.fail(method, faults.status(code))
    with pytest.raises(ChatUnreachable if code == 403 else NotSent):
        await channel.send(answer(TABLE))
    await channel.send(answer(TABLE))
    assert bot_api.calls == ["sendRichMessage", "sendMessage", "sendRichMessage"]


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        (faults.status(401), NotSent),
        (faults.status(429, retry_after=3), ChannelRateLimited),
        (faults.status(502), Ambiguous),
        (faults.lost_response, Ambiguous),
        (faults.truncated, Ambiguous),
        (faults.reset, Ambiguous),
    ],
)
async def test_unclear_rich_message_is_not_sent_as_text(
    bot_api: BotApi, channel: TelegramChannel, fault: faults.Fault, error: type[SendError]
) -> None:
    bot_api.fail("sendRichMessage", fault)
    with pytest.raises(error):
        await channel.send(answer(TABLE))
    assert bot_api.calls == ["sendRichMessage"]
    await channel.send(replace(answer(TABLE), maybe_duplicate=True))
    assert bot_api.answers(7)[-1].startswith("↻ Possible duplicate")


async def test_preview_becomes_a_rich_message_and_is_not_edited_again(
    bot_api: BotApi, channel: TelegramChannel
) -> None:
    shown = await preview(channel, PreviewContent("Sizes:"), None)
    await preview(channel, PreviewContent(TABLE), shown)
    assert await channel.send(answer(TABLE, shown)) == shown
    assert [effect.method for effect in bot_api.sent] == ["sendMessage", "editMessageText"]
    (message,) = bot_api.chat(7)
    assert [block["type"] for block in message.blocks] == ["paragraph", "table", "paragraph"]


async def test_edit_on_an_older_server_is_text(bot_api: BotApi, channel: TelegramChannel) -> None:
    shown = await channel.send(message("Sizes:"))
    bot_api.methods.knows_rich = False
    assert await channel.send(answer(TABLE, shown)) == shown
    assert bot_api.answers(7) == [render(TABLE)[0].text]
    await channel.send(answer(TABLE))
    assert bot_api.calls[1:] == ["editMessageText", "editMessageText", "sendMessage"]


async def test_unchanged_rich_message_counts_as_edited(
    bot_api: BotApi, channel: TelegramChannel
) -> None:
    shown = await channel.send(answer(TABLE))
    assert await channel.send(answer(TABLE, shown)) == shown
    assert bot_api.calls == ["sendRichMessage", "editMessageText"]


async def test_defused_table_is_sent_without_its_cells(
    bot_api: BotApi, channel: TelegramChannel
) -> None:
    (part,) = render("| a | b |\n|--|--|\n| x | [y](https://example.org/?q=secret) |")
    safe = defuse_part(part, is_markdown=False, is_read=False)
    await channel.send(OutboundMessage("d1", 0, ROUTE, safe))
    assert bot_api.calls == ["sendMessage"]
    assert "text_link" not in str(bot_api.sends[0].params)


async def test_groups_get_no_drafts(bot_api: BotApi, channel: TelegramChannel) -> None:
    await channel.show_draft(Route("telegram", "123456", "-7"), THINKING, 5)
    assert bot_api.calls == []


async def test_drafts_are_not_retried_on_a_server_without_them(bot_api: BotApi) -> None:
    settings = replace(QUICK, base_url=bot_api.url, streaming="drafts")
    channel = TelegramChannel(settings, gate=RateLimiter(None))
    assert channel.streaming(ROUTE) == "drafts"
    bot_api.fail("sendMessageDraft", faults.status(404, description="Not Found: method not found"))
    bot_api.methods.knows_rich = False
    for _ in range(2):
        await channel.show_draft(ROUTE, THINKING, 5)
    assert bot_api.calls == ["sendRichMessageDraft", "sendMessageDraft"]
    assert channel.streaming(ROUTE) == "edits"
    assert channel.streaming(OTHER_ROUTE) == "edits"
    await channel.aclose()


async def test_chat_that_refuses_drafts_gets_edits(bot_api: BotApi) -> None:
    settings = replace(QUICK, base_url=bot_api.url, streaming="drafts")
    channel = TelegramChannel(settings, gate=RateLimiter(None))
    bot_api.methods.knows_rich = False
    reason = "Bad Request: TEXTDRAFT_PEER_INVALID"
    bot_api.fail("sendMessageDraft", faults.status(400, description=reason))
    for _ in range(2):
        await channel.show_draft(ROUTE, THINKING, 5)
    assert bot_api.calls == ["sendRichMessageDraft", "sendMessageDraft"]
    assert channel.streaming(ROUTE) == "edits"
    assert channel.streaming(OTHER_ROUTE) == "drafts"
    await channel.aclose()


@pytest.mark.parametrize("code", [400, 403])
async def test_refused_rich_draft_is_shown_as_text_and_the_next_is_rich(
    bot_api: BotApi, channel: TelegramChannel, code: int
) -> None:
    reason = "Bad Request: RICH_MESSAGE_FORMULA_INVALID"
    bot_api.fail("sendRichMessageDraft", faults.status(code, description=reason))
    for _ in range(2):
        await channel.show_draft(ROUTE, THINKING, 5)
    assert bot_api.calls == ["sendRichMessageDraft", "sendMessageDraft", "sendRichMessageDraft"]


async def test_missing_rich_drafts_are_remembered_for_all_bots_of_the_server(
    bot_api: BotApi,
) -> None:
    bot_api.methods.knows_rich = False
    settings, server = replace(QUICK, base_url=bot_api.url), RichSupport()
    for _ in range(2):
        channel = TelegramChannel(settings, gate=RateLimiter(None), rich=server)
        await channel.show_draft(ROUTE, THINKING, 5)
        await channel.aclose()
    assert bot_api.calls == ["sendRichMessageDraft", "sendMessageDraft", "sendMessageDraft"]


async def test_refusal_of_both_forms_of_a_draft_is_no_missing_method(
    bot_api: BotApi, channel: TelegramChannel
) -> None:
    bot_api.fail("sendRichMessageDraft", faults.status(404))
    bot_api.fail("sendMessageDraft", faults.status(502))
    with pytest.raises(Ambiguous):
        await channel.show_draft(ROUTE, THINKING, 5)
    await channel.show_draft(ROUTE, THINKING, 5)
    assert bot_api.calls == ["sendRichMessageDraft", "sendMessageDraft", "sendRichMessageDraft"]
