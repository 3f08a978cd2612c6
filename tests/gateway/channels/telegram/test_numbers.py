"""Numbers that Telegram's servers never send: accepted or rejected without stopping the channel."""

import json
from typing import Any

import pytest

from gateway.channels.chat_settings import ChatSettingsIndex
from gateway.channels.telegram.api.request import AiohttpRequest, Refusal, UnreadableResponse
from gateway.channels.telegram.inbound.decode import DecodeContext
from gateway.channels.telegram.inbound.update_batch import decode_batch, next_offset_of
from gateway.channels.telegram.settings import Bot
from tests.gateway.channels.telegram.inbound.updates import message

NUMBERS = [
    "1e400",
    "-1e400",
    "NaN",
    "Infinity",
    "1e308",
    "9" * 30,
    "9" * 4000,
    "-0.0",
    "1.5",
    "true",
]
PLACES = ("message_id", "edit_date", "message_thread_id", "date", "update_id", "chat", "from")


def with_number(place: str, number: str) -> Any:
    update: dict[str, Any] = {"update_id": 5, "edited_message": message(is_topic_message=True)}
    body = update if place == "update_id" else update["edited_message"]
    where = body[place] if place in ("chat", "from") else body
    where["id" if place in ("chat", "from") else place] = "NUMBER"
    return json.loads(json.dumps(update).replace('"NUMBER"', number))


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize("place", PLACES)
def test_update_with_any_number_is_read_or_stored(place: str, number: str) -> None:
    here = DecodeContext(Bot(42, "KoreBot"), "42", ChatSettingsIndex())
    batch = decode_batch([with_number(place, number), {"update_id": 9}], here, 1.0)
    next_offset = next_offset_of(batch.cursors)
    assert next_offset is not None
    assert 9 < next_offset < 2**63
    assert len(batch.messages) + len(batch.undecoded) <= 1


@pytest.mark.parametrize("number", [*NUMBERS, '"soon"', "[]"])
@pytest.mark.parametrize("place", ["error_code", "retry_after", "migrate_to_chat_id"])
def test_rejection_with_any_number_has_a_bounded_wait(place: str, number: str) -> None:
    wrong = f'"{place}": {number}'
    body = f'{{"ok": false, {wrong}, "parameters": {{{wrong}}}}}'
    with pytest.raises((Refusal, UnreadableResponse)) as raised:
        AiohttpRequest.parse_json_payload(body.encode())
    if isinstance(raised.value, Refusal):
        assert 0 < raised.value.retry_after_s <= 24 * 3600
