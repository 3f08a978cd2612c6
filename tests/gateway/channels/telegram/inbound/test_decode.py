import contextlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.channels.chat_aliases import ChatIdAliases
from gateway.channels.chat_settings import ChatSettings, ChatSettingsIndex
from gateway.channels.telegram.inbound.decode import (
    DecodeContext,
    Undecodable,
    chat_migration,
    decode,
)
from gateway.channels.telegram.inbound.membership import membership_change
from gateway.channels.telegram.settings import Bot
from gateway.core.messages import InboundMessage
from tests.gateway.channels.telegram.inbound.updates import ADA, RICH, message

BOT = Bot(42, "KoreBot")
HERE = DecodeContext(BOT, "42", ChatSettingsIndex())


def read(body: dict[str, Any], kind: str = "message") -> InboundMessage | None:
    return decode({"update_id": 1, kind: body}, HERE, 123.0)


def content(body: dict[str, Any]) -> str | None:
    decoded = read(body)
    return decoded.content if decoded else None


def test_private_text_is_decoded() -> None:
    decoded = read(message("hello there"))
    assert decoded is not None
    assert (decoded.channel, decoded.account, decoded.chat_id) == ("telegram", "42", "7")
    assert (decoded.sender.id, decoded.sender.name) == ("9", "Ada L")
    assert (decoded.event_id, decoded.message_id) == ("7:5", "5")
    assert (decoded.content, decoded.received_at) == ("hello there", 123.0)
    assert decoded.private
    assert not decoded.edited
    assert decoded.thread_id is None


def test_invisible_characters_are_escaped() -> None:
    quoted = {"message_id": 4, "chat": {"id": 7, "type": "private"}, "text": "b\u2062"}
    decoded = read(message("a\U000e0072\U000e006d", reply_to_message=quoted))
    assert decoded is not None
    assert (decoded.content, decoded.quoted) == ("a\\u{e0072}\\u{e006d}", "b\\u{2062}")


def test_edit_keeps_the_message_and_has_its_own_event_id() -> None:
    decoded = read(message("better", edit_date=1_700_000_099), "edited_message")
    assert decoded is not None
    assert decoded.edited
    assert (decoded.message_id, decoded.event_id) == ("5", "7:5:1700000099")


def entity(kind: str, offset: int, length: int, **fields: Any) -> dict[str, Any]:
    return {"type": kind, "offset": offset, "length": length, **fields}


def test_links_behind_words_and_code_are_markdown() -> None:
    text = "😀 see docs, run ls -l or\nprint(1)\nnow"
    entities = [
        entity("text_link", 7, 4, url="https://example.org/a_(b)"),
        entity("bold", 7, 4),
        entity("code", 17, 5),
        entity("pre", 26, 8, language="python"),
    ]
    assert content(message(text, entities=entities)) == (
        "😀 see [docs](<https://example.org/a_(b)>), run `ls -l` or\n```python\nprint(1)\n```\nnow"
    )


def test_visible_address_is_not_repeated() -> None:
    link = entity("text_link", 0, 19, url="https://example.org/")
    assert content(message("https://example.org", entities=[link])) == "https://example.org"


def test_code_with_backticks_gets_a_longer_fence() -> None:
    code = [entity("code", 0, 3)]
    assert content(message("a`b", entities=code)) == "``a`b``"
    assert content(message("`a`", entities=code)) == "`` `a` ``"


def test_caption_and_quote_show_their_links() -> None:
    link = [entity("text_link", 0, 4, url="https://example.org/x")]
    photo = message(
        None, caption="this", caption_entities=link, photo=[{"file_id": "f", "width": 1}]
    )
    assert content(photo) == "[photo] [this](https://example.org/x)"
    quoting = read(message(reply_to_message=message("that", entities=link)))
    assert quoting is not None
    assert quoting.quoted == "[that](https://example.org/x)"


def test_name_of_the_bot_in_an_address_remains() -> None:
    text = "@KoreBot read this"
    link = [entity("text_link", 14, 4, url="https://example.org/@KoreBot")]
    assert content(message(text, chat=-7, entities=link)) == (
        "read [this](https://example.org/@KoreBot)"
    )
    assert content(message("read this", chat=-7, entities=[entity("code", 5, 4)])) is None


def test_command_copied_as_code_is_a_command() -> None:
    assert content(message("/allow 1234", entities=[entity("code", 0, 11)])) == "/allow 1234"
    assert content(message("/allow 1234", entities=[entity("code", 7, 4)])) == "/allow 1234"
    link = [entity("text_link", 10, 4, url="https://example.org/x")]
    assert content(message("/goal see docs", entities=link)) == (
        "/goal see [docs](https://example.org/x)"
    )


@pytest.mark.parametrize("offset", [2, 99])
def test_entity_outside_of_the_text_is_ignored(offset: int) -> None:
    assert content(message("hi", entities=[entity("code", offset, 3)])) == "hi"


RICH_TEXT = """\
## Plan

See [docs](https://x.org/d)👍$x^2$

| A | B |
| --- | --- |
| `a\\|b` |  |
Sizes

1. one
- [x] two

More

```sh
ls
```

> a
> b
Ada

$$E=mc^2$$

[photo]
A cat
Eve

[of a newer telegram] still\\u{200b} here"""


def test_rich_message_is_read_as_markdown() -> None:
    assert content(message(None, rich_message=RICH)) == RICH_TEXT


def test_rich_message_replied_to_is_quoted() -> None:
    quoting = read(message("why?", reply_to_message=message(None, rich_message=RICH)))
    assert quoting is not None
    assert quoting.quoted == RICH_TEXT


def test_endlessly_nested_rich_message_is_undecodable() -> None:
    block: dict[str, Any] = {"type": "paragraph", "text": "x"}
    for _ in range(200):
        block = {"type": "blockquote", "blocks": [block]}
    with pytest.raises(Undecodable):
        read(message(None, rich_message={"blocks": [block]}))


def test_live_photo_shows_its_picture() -> None:
    sizes = [{"file_id": "p", "file_unique_id": "u", "width": 9, "height": 9, "file_size": 3}]
    moving = {"file_id": "v", "file_unique_id": "w", "duration": 2, "mime_type": "video/mp4"}
    decoded = read(message(None, live_photo={**moving, "photo": sizes}, photo=sizes))
    assert decoded is not None
    (media,) = decoded.media
    assert decoded.content == "[live_photo]"
    assert (media.kind, media.remote, media.media_type, media.seconds) == (
        "live_photo",
        "p",
        "image/jpeg",
        2,
    )
    without = read(message(None, live_photo=moving))
    assert without is not None
    assert (without.media[0].remote, without.media[0].media_type) == ("v", "video/mp4")


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        (
            "gift",
            {"gift": {"sticker": {"emoji": "🎁"}, "star_count": 15}, "text": "Thanks"},
            '🎁 worth 15 stars, with the text "Thanks"',
        ),
        (
            "unique_gift",
            {"gift": {"base_name": "Plush Pepe", "number": 7}, "origin": "transfer"},
            "Plush Pepe #7 (transfer)",
        ),
        ("giveaway", {"winner_count": 3, "prize_description": "books"}, "books for 3 winners"),
        ("invoice", {"title": "Tea", "description": "green"}, "Tea: green"),
    ],
)
def test_gift_is_named(field: str, value: dict[str, Any], words: str) -> None:
    decoded = read(message(None, **{field: value}))
    assert decoded is not None
    assert decoded.content == f"[{field}]"
    assert decoded.media[0].words == words


def test_story_replied_to_is_named() -> None:
    decoded = read(message("nice", reply_to_story={"chat": {"id": 9, "title": "News"}, "id": 1}))
    assert decoded is not None
    (media,) = decoded.media
    assert (media.kind, media.quoted) == ("story", True)
    assert media.words == "of News, which bots are not shown"


def test_topic_of_direct_messages_is_a_separate_thread() -> None:
    topic = {"topic_id": 77, "user": ADA}
    decoded = read(message("/new", chat=-7, direct_messages_topic=topic))
    assert decoded is not None
    assert decoded.thread_id == "direct-77"
    assert not decoded.private


def test_stopped_draft_is_a_stop_command_of_its_person() -> None:
    chat = {"id": 9, "type": "private", "first_name": "Ada"}
    stopped = read({"chat": chat, "draft_id": 5}, "stopped_message_generation")
    assert stopped is not None
    assert (stopped.content, stopped.kind, stopped.private) == ("/stop", "message", True)
    assert (stopped.principal, stopped.chat_id, stopped.event_id) == (
        "telegram:9",
        "9",
        "stopped:1",
    )
    topic = read(
        {"chat": chat, "draft_id": 5, "message_thread_id": 3}, "stopped_message_generation"
    )
    assert topic is not None
    assert topic.thread_id == "3"


def test_only_a_forum_topic_is_a_thread() -> None:
    topic = read(message("/new", chat=-7, message_thread_id=3, is_topic_message=True))
    reply = read(message("/new", chat=-7, message_thread_id=3))
    assert topic is not None
    assert topic.thread_id == "3"
    assert reply is not None
    assert reply.thread_id is None


@pytest.mark.parametrize(
    "fields",
    [
        {"forward_origin": {"type": "hidden_user", "date": 1, "sender_user_name": "Eve"}},
        {"forward_date": 1},
        {"external_reply": {"origin": {"type": "user"}}, "quote": {"text": "send it to me"}},
    ],
)
def test_forwarded_message_is_marked(fields: dict[str, Any]) -> None:
    passed_on, own = read(message(**fields)), read(message())
    assert passed_on is not None
    assert passed_on.forwarded
    assert own is not None
    assert not own.forwarded


@pytest.mark.parametrize(
    ("origin", "source"),
    [
        ({"type": "user", "sender_user": ADA}, "Ada L"),
        ({"type": "hidden_user", "sender_user_name": "Eve\u200b\nX"}, "Eve\\u{200b} X"),
        ({"type": "channel", "chat": {"id": -1, "title": "News"}}, "News"),
        (
            {"type": "channel", "chat": {"id": -1, "title": "N"}, "author_signature": "Ann"},
            "Ann (N)",
        ),
        ({"type": "chat", "sender_chat": {"id": -1, "title": "Choir"}}, "Choir"),
        ({"type": "of a newer Telegram"}, None),
    ],
)
def test_forward_names_its_source(origin: dict[str, Any], source: str | None) -> None:
    forward = read(message(forward_origin=origin))
    assert forward is not None
    assert forward.forwarded_from == source


def test_forward_of_an_older_server_names_its_source() -> None:
    forward = read(message(forward_date=1, forward_from=ADA))
    assert forward is not None
    assert forward.forwarded_from == "Ada L"


def test_quote_of_another_chat_names_its_source() -> None:
    external = {"origin": {"type": "user", "sender_user": ADA}, "chat": {"id": -1, "title": "C"}}
    quoting = read(message(external_reply=external, quote={"text": "at 5"}))
    assert quoting is not None
    assert (quoting.quoted, quoting.quoted_from) == ("at 5", "Ada L (C)")
    assert quoting.forwarded_from is None


def test_quote_names_a_third_person_as_author() -> None:
    eve = {"id": 10, "is_bot": False, "first_name": "Eve"}
    ours = message("x", author={"id": 42, "is_bot": True, "first_name": "Kore"})
    third = read(message(reply_to_message=message("x", author=eve)))
    own, answer = read(message(reply_to_message=message("x"))), read(message(reply_to_message=ours))
    assert third is not None
    assert third.quoted_from == "Eve"
    assert own is not None
    assert own.quoted_from is None
    assert answer is not None
    assert answer.quoted_from is None


def test_quote_of_a_forward_is_not_by_its_sender() -> None:
    origin = {"type": "hidden_user", "sender_user_name": "Eve"}
    quoting = read(message(reply_to_message=message("pay me", forward_origin=origin)))
    own = read(message(reply_to_message=message("note")))
    assert quoting is not None
    assert not quoting.quoted_own
    assert quoting.quoted_from == "Eve"
    assert own is not None
    assert own.quoted_own


def test_replied_text_is_quoted_unless_a_part_is_selected() -> None:
    whole = read(message(reply_to_message=message("the whole text")))
    part = read(message(reply_to_message=message("the whole text"), quote={"text": "whole"}))
    assert whole is not None
    assert whole.quoted == "the whole text"
    assert part is not None
    assert part.quoted == "whole"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("just talk", None),
        ("@korebot what is up", "what is up"),
        ("what is up, @KoreBot?", "what is up, ?"),
        ("@KoreBot: go", "go"),
        ("@KoreBotany is nice", None),
        ("mail me at a@korebot.example", None),
        ("/status", "/status"),
        ("/status@KoreBot now", "/status now"),
        ("/status@OtherBot", None),
        ("see /status", None),
    ],
)
def test_only_messages_to_the_bot_are_read_in_a_group(text: str, expected: str | None) -> None:
    assert content(message(text, chat=-7)) == expected


def test_reply_to_the_bot_is_addressed_to_it() -> None:
    ours = message("earlier", author={"id": 42, "is_bot": True, "first_name": "Kore"})
    theirs = message("earlier")
    assert content(message("and?", chat=-7, reply_to_message=ours)) == "and?"
    assert content(message("and?", chat=-7, reply_to_message=theirs)) is None


def test_message_in_a_topic_opened_by_the_bot_is_not_a_reply() -> None:
    opening = message(None, author={"id": 42, "is_bot": True}, forum_topic_created={"name": "x"})
    body = message(
        "to my friends", chat=-7, reply_to_message=opening, is_topic_message=True,
        message_thread_id=3,
    )  # fmt: skip
    assert content(body) is None


def test_link_to_the_profile_of_the_bot_addresses_it() -> None:
    entity = {"type": "text_mention", "offset": 0, "length": 4, "user": {"id": 42}}
    assert content(message("Kore go", chat=-7, entities=[entity])) == "Kore go"


def test_private_command_for_another_bot_is_ignored() -> None:
    assert content(message("/start@OtherBot")) is None


@pytest.mark.parametrize("kind", ["photo", "voice", "document", "sticker", "location"])
def test_media_without_caption_has_its_kind_as_text(kind: str) -> None:
    result = {"file_id": "x"}
    assert content(message(None) | {kind: [result] if kind == "photo" else result}) == f"[{kind}]"


def test_caption_follows_the_medium() -> None:
    assert content(message(None, photo=[{}], caption="my cat")) == "[photo] my cat"
    assert content(message(None, chat=-7, photo=[{}], caption="my cat")) is None
    assert content(message(None, chat=-7, photo=[{}], caption="@KoreBot look")) == "[photo] look"


def test_largest_photo_size_is_used() -> None:
    small = {"file_id": "s", "file_unique_id": "us", "width": 90, "height": 60}
    large = {"file_id": "l", "file_unique_id": "ul", "width": 1280, "height": 800, "file_size": 9}
    absurd = {"file_id": "x", "width": 1e300, "height": 10**400}
    decoded = read(message(None, photo=[small, large, absurd, small]))
    assert decoded is not None
    (media,) = decoded.media
    assert (media.kind, media.remote, media.unique, media.size_bytes) == ("photo", "l", "ul", 9)


def test_reply_includes_the_file_it_refers_to() -> None:
    quoted = message(None, document={"file_id": "d", "file_name": "a.pdf"}, caption="the plan")
    decoded = read(message("why?", reply_to_message=quoted))
    assert decoded is not None
    assert decoded.quoted == "the plan"
    assert [(attachment.name, attachment.quoted) for attachment in decoded.media] == [
        ("a.pdf", True)
    ]


def test_animated_sticker_is_its_emoji() -> None:
    decoded = read(message(None, sticker={"file_id": "s", "emoji": "😀", "is_animated": True}))
    assert decoded is not None
    (media,) = decoded.media
    assert (media.words, media.remote) == ("😀", None)


def test_unaddressed_album_part_starts_no_message() -> None:
    decoded = read(message(None, chat=-7, photo=[{"file_id": "x"}], media_group_id="3"))
    assert decoded is not None
    assert (decoded.album, decoded.follows) == ("-7:3", True)
    decoded = read(message(None, photo=[{"file_id": "x"}], media_group_id="3"))
    assert decoded is not None
    assert not decoded.follows


def test_service_messages_are_ignored() -> None:
    assert read(message(None, new_chat_members=[{"id": 3}])) is None
    assert read(message("x", author={"id": 3, "is_bot": True})) is None
    assert read(message("/new", chat=-7, is_automatic_forward=True)) is None
    assert read(message(None, location={"latitude": 1}, edit_date=2), "edited_message") is None
    assert decode({"update_id": 1, "poll": {"id": "1"}}, HERE, 0.0) is None


def test_anonymous_sender_is_identified_by_the_chat() -> None:
    group = {"id": -7, "type": "supergroup", "title": "Ops"}
    decoded = read(message("/new", chat=-7, sender_chat=group))
    assert decoded is not None
    assert (decoded.sender.id, decoded.sender.name) == ("-7", "Ops")


def test_button_press_is_decoded() -> None:
    query = {"id": "q1", "from": {"id": 9}, "data": "yes", "message": message()}
    decoded = read(query, "callback_query")
    assert decoded is not None
    assert decoded.kind == "button"
    assert (decoded.event_id, decoded.chat_id, decoded.content) == ("q1", "7", "yes")
    assert decoded.principal == "telegram:9"


@pytest.mark.parametrize("shown", [None, {}, {"chat": {"id": 9, "type": "private"}, "date": 0}])
def test_press_without_a_message_is_private(shown: object) -> None:
    decoded = read({"id": "q1", "from": {"id": 9}, "message": shown}, "callback_query")
    assert decoded is not None
    assert (decoded.chat_id, decoded.private, decoded.content) == ("9", True, "")


def test_lone_surrogates_are_replaced() -> None:
    decoded = read(message("a\ud800b", author={"id": 9, "first_name": "\udfff"}))
    assert decoded is not None
    assert decoded.content == "a\ufffdb"
    assert decoded.sender.name == "\ufffd"


@pytest.mark.parametrize(
    "body",
    [
        "text", 5, [], {}, {"chat": {"id": 7}}, message(chat=7) | {"message_id": "x"},
        message() | {"text": 5}, message() | {"from": {"id": "Ada"}}, message() | {"chat": None},
    ],
)  # fmt: skip
def test_malformed_update_is_undecodable(body: Any) -> None:
    with pytest.raises(Undecodable):
        decode({"update_id": 1, "message": body}, HERE, 0.0)


TEXT = st.text(alphabet="a/@ \ud800", max_size=4)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXT,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(TEXT, inner, max_size=2),
    max_leaves=4,
)
FIELDS = [
    *("message_id", "chat", "from", "text", "caption", "entities", "reply_to_message", "quote"),
    *("message_thread_id", "is_topic_message", "sender_chat", "edit_date", "photo"),
    *("rich_message", "live_photo", "gift", "direct_messages_topic", "reply_to_story"),
]


@given(
    st.dictionaries(st.sampled_from(FIELDS), JSON), st.sampled_from(["message", "edited_message"])
)
def test_decoding_raises_only_undecodable(fields: dict[str, Any], kind: str) -> None:
    body = message(chat=-7) | fields
    with contextlib.suppress(Undecodable):
        decode({"update_id": 1, kind: body}, HERE, 0.0)


def test_supergroup_keeps_the_id_of_its_group() -> None:
    moves = ChatIdAliases({"-7": "-1007"})
    here = DecodeContext(BOT, "42", ChatSettingsIndex(moves={"telegram": moves}))
    inbound_message = decode({"update_id": 1, "message": message("/status", chat=-1007)}, here, 0.0)
    assert inbound_message is not None
    assert (inbound_message.chat_id, inbound_message.event_id, inbound_message.message_id) == (
        "-7",
        "-1007:5",
        "-1007/5",
    )
    assert inbound_message.session_key == "telegram:42:-7"


@pytest.mark.parametrize(
    ("chat", "field", "other"),
    [(-7, "migrate_to_chat_id", -1007), (-1007, "migrate_from_chat_id", -7)],
)
def test_migration_is_decoded_from_both_chats(chat: int, field: str, other: int) -> None:
    body = message(None, chat=chat, **{field: other})
    assert chat_migration({"update_id": 1, "message": body}) == ("-7", "-1007")
    assert read(body) is None


def test_malformed_migration_is_ignored() -> None:
    assert (
        chat_migration({"update_id": 1, "message": message(None, migrate_to_chat_id="x")}) is None
    )
    assert chat_migration({"update_id": 1, "message": "?"}) is None
    assert chat_migration({"update_id": 1}) is None


def test_messages_of_a_group_with_listen_become_context() -> None:
    here = DecodeContext(
        BOT, "42", ChatSettingsIndex({"telegram": {"-7": ChatSettings(listen=True)}})
    )

    def decode_message(text: str, chat: int = -7, **fields: Any) -> InboundMessage | None:
        body = message(text, chat=chat, **fields)
        return decode({"update_id": 1, "message": body}, here, 0.0)

    inbound_message = decode_message("lunch?")
    assert inbound_message is not None
    assert (inbound_message.content, inbound_message.kind) == ("lunch?", "overheard")
    assert decode_message("lunch?", -8) is None
    assert decode_message("/eat@OtherBot") is None
    addressed = decode_message("@KoreBot lunch?")
    assert addressed is not None
    assert addressed.kind == "message"
    other_bot = {"id": 5, "is_bot": True, "first_name": "Bot"}
    assert (
        decode({"update_id": 1, "message": message("x", chat=-7, author=other_bot)}, here, 0.0)
        is None
    )


@pytest.mark.parametrize("chat", [1, None, [], {"id": "x"}, {}])
def test_malformed_move_is_ignored(chat: Any) -> None:
    body = {"migrate_to_chat_id": -5, "chat": chat}
    assert chat_migration({"update_id": 1, "message": body}) is None


def change(chat: Any, before: str, after: Any, **more: Any) -> dict[str, Any]:
    new = after if isinstance(after, dict) else {"status": after}
    result = {"chat": chat, "from": ADA, "old_chat_member": {"status": before}}
    return {"update_id": 9, "my_chat_member": {**result, "new_chat_member": new, **more}}


@pytest.mark.parametrize(
    ("before", "after", "present", "was"),
    [
        ("left", "member", True, False),
        ("member", "administrator", True, True),
        ("member", "kicked", False, True),
        ("member", {"status": "restricted", "is_member": True}, True, True),
        ("member", {"status": "restricted", "is_member": False}, False, True),
    ],
)
def test_membership_of_the_bot_is_decoded(
    before: str, after: Any, present: bool, was: bool
) -> None:
    group = {"id": -7, "type": "supergroup", "title": "Ops\nteam"}
    result = membership_change(change(group, before, after), HERE)
    assert result is not None
    assert (result.is_present, result.was_present, result.is_private) == (present, was, False)
    assert (result.title, result.actor) == ("'Ops\\nteam' (-7)", "'Ada L' (9)")
    assert read(message("x")) is not None


def test_migration_is_not_a_departure() -> None:
    here = DecodeContext(
        BOT, "42", ChatSettingsIndex(moves={"telegram": ChatIdAliases({"-7": "-1007"})})
    )
    old = {"id": -7, "type": "group", "title": "Ops"}
    new = {"id": -1007, "type": "supergroup", "title": "Ops"}
    assert membership_change(change(old, "member", "left"), here) is None
    result = membership_change(change(new, "member", "left"), here)
    assert result is not None
    assert result.route.chat_id == "-7"


@pytest.mark.parametrize("broken", [1, {}, {"chat": {"id": 1}}])
def test_malformed_membership_change_is_undecodable(broken: Any) -> None:
    with pytest.raises(Undecodable):
        membership_change({"update_id": 1, "my_chat_member": broken}, HERE)
