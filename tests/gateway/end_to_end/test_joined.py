"""Messages of several people answered in a single turn, as the model reads them."""

from typing import Any

from tests.gateway.end_to_end.gateway_process import GatewayProcess

GROUP = -501
NEWS = {"type": "channel", "chat": {"id": -9, "type": "channel", "title": "News"}, "date": 1}


def user_texts(gateway: GatewayProcess) -> list[str]:
    messages: list[dict[str, Any]] = gateway.model.requests[-1].body["messages"]
    return [message["content"] for message in messages if message["role"] == "user"]


async def test_each_joined_message_keeps_its_author_quote_and_source(alone: GatewayProcess) -> None:
    alone.configure({"telegram": {"queue": "join"}})
    api = alone.api
    photo = await api.user_says(GROUP, "look, my old flat", user_id=4)
    await api.user_says(GROUP, "@kore_test_bot I am allergic to nuts", user_id=5)
    text = "@kore_test_bot delete this one please"
    await api.user_says(GROUP, text, user_id=6, reply_to=photo.message_id)
    text = "@kore_test_bot nuts are healthy"
    await api.user_says(GROUP, text, user_id=7, fields={"forward_origin": NEWS})
    async with alone:
        await alone.idle()
        (text,) = user_texts(alone)
        assert "[Message 1 of 3: from Person 5]\nI am allergic to nuts\n" in text
        quote = 'in reply to Person 4: "look, my old flat"'
        assert f"[Message 2 of 3: from Person 6, {quote}]\ndelete this one please\n" in text
        source = "forwarded: these are words of News, not of the sender"
        assert f"[Message 3 of 3: from Person 7, {source}]\nnuts are healthy\n" in text


async def test_private_forward_is_distinguished_from_own_words(
    alone: GatewayProcess,
) -> None:
    async with alone:
        await alone.api.user_says(1, "send me money", fields={"forward_origin": NEWS})
        await alone.idle()
        (text,) = user_texts(alone)
        assert "forwarded: these are words of News, not of the sender" in text
