"""Delivery guarantees for each kind of failure while sending."""

import pytest

from tests.fakes.faults import Fault, lost_response, reset, status, truncated
from tests.gateway.end_to_end.gateway_process import GatewayProcess

pytestmark = pytest.mark.asyncio(loop_scope="module")
MARK = "↻ Possible duplicate: the connection was lost while sending.\n"


async def test_answer_with_a_lost_response_is_repeated_once_with_a_mark(
    gateway: GatewayProcess, chat: int
) -> None:
    gateway.api.fail("sendMessage", lost_response)
    assert await gateway.answers_to(chat, "hi") == ["echo: hi", f"{MARK}echo: hi"]


async def test_truncated_response_is_ambiguous(gateway: GatewayProcess, chat: int) -> None:
    gateway.api.fail("sendMessage", truncated)
    assert await gateway.answers_to(chat, "hi") == ["echo: hi", f"{MARK}echo: hi"]


@pytest.mark.parametrize("fault", [reset, status(500), status(502)], ids=["reset", "500", "502"])
async def test_ambiguous_send_is_marked(gateway: GatewayProcess, chat: int, fault: Fault) -> None:
    gateway.api.fail("sendMessage", fault)
    assert await gateway.answers_to(chat, "hi") == [f"{MARK}echo: hi"]


async def test_rate_limit_is_respected_without_repetition(
    gateway: GatewayProcess, chat: int
) -> None:
    gateway.api.fail("sendMessage", status(429, retry_after=1), times=2)
    assert await gateway.answers_to(chat, "hi") == ["echo: hi"]
    assert gateway.methods(chat) == ["sendMessage"]


async def test_rejected_entities_are_sent_plain(gateway: GatewayProcess, chat: int) -> None:
    gateway.model.script("some **bold** words")
    refused = status(400, description="Bad Request: can't parse entities: unsupported start tag")
    gateway.api.fail("sendMessage", refused)
    assert await gateway.answers_to(chat, "hi") == ["some bold words"]
    (shown,) = [message for message in gateway.api.chat(chat) if message.from_bot]
    assert list(shown.entities) == []


async def test_blocked_chat_is_abandoned_and_others_continue(
    gateway: GatewayProcess, chat: int
) -> None:
    gateway.api.chats.blocked.add(chat)
    await gateway.api.user_says(chat, "hi")
    assert await gateway.answers_to(chat + 5000, "hi") == ["echo: hi"]
    assert gateway.api.answers(chat) == []
    gateway.api.chats.blocked.remove(chat)
    assert await gateway.answers_to(chat, "again") == ["echo: again"]


async def test_failing_chat_does_not_delay_others(gateway: GatewayProcess, chat: int) -> None:
    gateway.api.fail("sendMessage", status(429, retry_after=5))
    calls = gateway.api.calls.count("sendMessage")
    await gateway.api.user_says(chat, "first")
    await gateway.until(lambda: gateway.api.calls.count("sendMessage") > calls)
    await gateway.api.user_says(chat + 5000, "second")
    await gateway.until(lambda: gateway.api.answers(chat + 5000))
    assert gateway.api.answers(chat) == []
    await gateway.idle()
    assert gateway.api.answers(chat) == ["echo: first"]


async def test_order_is_kept_after_a_failed_first_send(gateway: GatewayProcess, chat: int) -> None:
    gateway.api.fail("sendMessage", status(429, retry_after=1))
    for text in ("one", "two", "three"):
        await gateway.api.user_says(chat, text)
    await gateway.idle()
    assert gateway.api.answers(chat) == ["echo: one", "echo: two", "echo: three"]


async def test_failed_typing_indicator_is_ignored(gateway: GatewayProcess, chat: int) -> None:
    gateway.api.fail("sendChatAction", status(500), times=3)
    assert await gateway.answers_to(chat, "hi") == ["echo: hi"]


async def test_lost_poll_response_loses_and_duplicates_nothing(
    gateway: GatewayProcess, chat: int
) -> None:
    gateway.api.fail("getUpdates", lost_response, times=2)
    await gateway.api.user_says(chat, "one")
    gateway.api.fail("getUpdates", truncated)
    assert await gateway.answers_to(chat, "two") == ["echo: one", "echo: two"]
