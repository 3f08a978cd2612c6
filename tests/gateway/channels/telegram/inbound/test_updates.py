import copy
import json
from collections.abc import Iterator
from itertools import product
from typing import Any

import pytest

from gateway.channels.chat_settings import ChatSettingsIndex
from gateway.channels.telegram.inbound.decode import DecodeContext
from gateway.channels.telegram.inbound.media import KINDS
from gateway.channels.telegram.inbound.update_batch import decode_batch, decode_stored
from gateway.channels.telegram.settings import Bot
from gateway.core.channel_events import UNDECODED_LIMIT_CHARS, Batch
from tests.gateway.channels.telegram.inbound.updates import RICH

HERE = DecodeContext(Bot(42, "KoreBot"), "42", ChatSettingsIndex())
ADA = {"id": 9, "is_bot": False, "first_name": "Ada", "last_name": "L", "language_code": "en"}
CHAT = {"id": 9, "type": "private", "first_name": "Ada"}
FILE = {
    "file_id": "f", "file_unique_id": "u", "file_name": "a.txt", "mime_type": "text/plain",
    "file_size": 3, "duration": 1, "emoji": "🙂", "width": 2, "height": 2, "title": "t",
    "address": "road", "location": {"latitude": 1, "longitude": 2, "live_period": 3},
    "latitude": 1, "longitude": 2, "first_name": "B", "phone_number": "1", "question": "why",
    "options": [{"text": "a", "voter_count": 1}], "value": 4, "description": "d",
    "tasks": [{"text": "do", "completion_date": 1}], "chat": {"id": -5, "title": "C"},
    "star_count": 5, "paid_media": [{"type": "photo"}],
}  # fmt: skip


def message(**fields: Any) -> dict[str, Any]:
    return {"message_id": 5, "date": 1, "chat": CHAT, "from": ADA, **fields}


FULL = message(
    text="/start hi",
    entities=[{"type": "text_mention", "offset": 0, "length": 2, "user": ADA}],
    message_thread_id=3, is_topic_message=True, edit_date=2, media_group_id="m",
    reply_to_message=message(text="before", photo=[FILE]), quote={"text": "be", "position": 0},
    external_reply={"origin": {"type": "user"}, "document": FILE},
    forward_origin={"type": "user", "sender_user": ADA}, sender_chat=None,
)  # fmt: skip
GROUP = {**FULL, "chat": {"id": -7, "type": "supergroup", "title": "G", "is_forum": True}}
MEMBER = {"status": "restricted", "is_member": True, "user": {"id": 42, "is_bot": True}}
CHANGE = {"chat": CHAT, "from": ADA, "old_chat_member": MEMBER, "new_chat_member": MEMBER}
UPDATES: dict[str, dict[str, Any]] = {
    "text": {"message": FULL},
    "group": {"message": GROUP},
    "channel": {"message": {**GROUP, "sender_chat": {"id": -5, "title": "C", "type": "channel"}}},
    "edit": {"edited_message": FULL},
    "press": {"callback_query": {"id": "q", "from": ADA, "data": "a", "message": FULL}},
    "change": {"my_chat_member": CHANGE},
    "rich": {"message": message(rich_message=RICH)},
    "stopped": {"stopped_message_generation": {"chat": CHAT, "draft_id": 5}},
    "direct": {"message": {**GROUP, "direct_messages_topic": {"topic_id": 3}, "text": "/new"}},
    "moved": {"message": {**GROUP, "migrate_to_chat_id": -1007}},
    **{
        kind: {"message": message(**{kind: [FILE] if kind == "photo" else FILE}, caption="see")}
        for kind in KINDS
    },
}
# Keys that some servers send as null where the Bot API omits them.
EMPTY = (
    *("message", "edited_message", "callback_query", "my_chat_member", "inline_query", "poll"),
    *("text", "caption", "entities", "caption_entities", "reply_to_message", "sender_chat"),
    *("quote", "external_reply", "forward_origin", "forward_date", "message_thread_id", *KINDS),
    *("is_topic_message", "is_automatic_forward", "media_group_id", "edit_date", "language_code"),
    *("last_name", "username", "migrate_to_chat_id", "migrate_from_chat_id", "is_bot"),
)


def read(update: dict[str, Any]) -> Batch:
    return decode_batch(
        [{"update_id": 1, **update}], DecodeContext(HERE.bot, "42", ChatSettingsIndex()), 1.0
    )


def places_in(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path to every value in a tree."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, inner in items:
        yield (*path, key)
        if isinstance(inner, dict | list):
            yield from places_in(inner, (*path, key))


def with_value(update: dict[str, Any], path: tuple[Any, ...], value: Any = ...) -> dict[str, Any]:
    """Return a copy with another value at this path, or without it."""
    result = copy.deepcopy(update)
    at: Any = result
    for key in path[:-1]:
        at = at[key]
    if value is ...:
        del at[path[-1]]
    else:
        at[path[-1]] = value
    return result


@pytest.mark.parametrize("name", UPDATES)
def test_null_is_read_as_absent(name: str) -> None:
    for path in places_in(UPDATES[name]):
        absent = read(with_value(UPDATES[name], path))
        null = read(with_value(UPDATES[name], path, None))
        assert (null.messages, null.moves, null.membership_changes) == (
            absent.messages,
            absent.moves,
            absent.membership_changes,
        ), path
        assert [item.reason for item in null.undecoded] == [
            item.reason for item in absent.undecoded
        ]


@pytest.mark.parametrize("name", UPDATES)
def test_additional_nulls_change_nothing(name: str) -> None:
    def padded(value: Any) -> Any:
        if isinstance(value, list):
            return [padded(item) for item in value]
        if isinstance(value, dict):
            return dict.fromkeys(EMPTY) | {key: padded(result) for key, result in value.items()}
        return value

    assert read(padded(UPDATES[name])) == read(UPDATES[name])


WRONG_VALUES: list[Any] = [0, 1e400, "x", "", [1], {"a": 1}, True, 10**400]


@pytest.mark.parametrize("name", UPDATES)
def test_value_of_a_wrong_type_is_read_or_stored_without_an_error(name: str) -> None:
    for path, wrong in product(places_in(UPDATES[name]), WRONG_VALUES):
        update = with_value(UPDATES[name], path, wrong)
        batch = read(update)
        assert batch.cursors == {"offset": "2"}
        for lost in batch.undecoded:
            # Infinity is not JSON, but Python reads and writes it, so the stored update can always
            # be read again.
            assert json.loads(lost.raw)["update_id"] == 1


def test_undecodable_update_is_stored_without_its_text_in_the_reason() -> None:
    (lost,) = read({"message": {**FULL, "message_id": "my secret", "text": "private"}}).undecoded
    assert (lost.event_id, lost.principal) == ("update:1", "telegram:9")
    assert json.loads(lost.raw)["message"]["text"] == "private"
    assert "secret" not in lost.reason
    assert "private" not in lost.reason
    assert "ValueError" in lost.reason
    assert "message" in lost.reason


def test_stored_undecoded_update_is_limited() -> None:
    (lost,) = read({"message": {"chat": 5, "text": "x" * UNDECODED_LIMIT_CHARS}}).undecoded
    assert len(lost.raw) == UNDECODED_LIMIT_CHARS
    (again,) = decode_stored(lost.raw, HERE, 1.0).undecoded
    assert again.reason == "it is not complete JSON"


def test_stored_update_is_decoded_alone_or_in_a_response() -> None:
    update = {"update_id": 1, "message": message(text="hi", caption=None)}
    for raw in (update, {"ok": True, "result": [update]}):
        batch = decode_stored(json.dumps(raw), HERE, 1.0)
        assert [item.content for item in batch.messages] == ["hi"]
        assert batch.cursors == {}
    for nothing in ("5", "[]", '{"result": 5}', "{}"):
        assert not decode_stored(nothing, HERE, 1.0).messages


@pytest.mark.parametrize("field", ["some_future_kind", "passport_data"])
def test_private_message_of_unknown_kind_is_reported(field: str) -> None:
    (result,) = read({"message": message(**{field: {"x": 1}})}).messages
    assert (result.unknown, result.content) == (True, "")
    (empty,) = read({"message": message()}).messages
    assert empty.unknown
    assert not read({"edited_message": message(**{field: {"x": 1}})}).messages
    assert not read(
        {"message": {**GROUP, "text": None, field: 1, "reply_to_message": None}}
    ).messages
    assert not read({"message": message(pinned_message={"message_id": 1})}).messages
