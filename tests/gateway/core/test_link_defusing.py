"""A single function processes every text field of outgoing messages and defuses all links."""

import dataclasses
import re
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import gateway
from agent.security.taint.link_defusing import addresses
from agent.security.taint.taint import BOTH
from gateway.channels.telegram.utf16 import offsets
from gateway.core.messages import Button, Entity, OutboundFile, OutboundKind, OutboundPart, Route
from gateway.store.port import Transaction
from gateway.store.repositories.conversations import sessions
from gateway.store.repositories.delivery import outbox
from gateway.store.repositories.delivery.outbox import OutgoingReply, PendingPart

ROUTE = Route("chat", "bot", "1")
LINK = "https://evil.example/?d=secret"
BARE = "www.secret.evil.example"
# Fields that readers never see: the path and content of a file, and the data of a button.
HIDDEN = {
    (OutboundFile, "path"),
    (OutboundFile, "text"),
    (OutboundFile, "kind"),
    (OutboundFile, "digest"),
    (Button, "data"),
    (Entity, "type"),
}


def outgoing_part(db: Transaction, part: OutboundPart, **more: Any) -> OutboundPart:
    """Return this part as the outbox passes it to a channel."""
    route = more.pop("route", ROUTE)
    outbox.put(db, None, [OutgoingReply("d", route, [part], **more)], 1.0)
    due = outbox.head(db, route.lane, 10.0)
    assert isinstance(due, PendingPart)
    return due.message.content


def dangerous(db: Transaction, lane: str = ROUTE.lane) -> None:
    session = sessions.create_session(db, "chat:7", 1.0, lane=lane)
    sessions.add_taint(db, session, BOTH)


def texts_of(kind: type) -> Iterator[tuple[type, str]]:
    """Yield every text field of a kind of message and of its nested records."""
    for name, result in typing.get_type_hints(kind).items():
        within = [
            argument for argument in typing.get_args(result) if dataclasses.is_dataclass(argument)
        ]
        for item in within:
            yield from texts_of(item)
        if not within and result not in (int, bool):
            yield kind, name


def message_with_text(kind: type, name: str, text: str) -> OutboundPart:
    """Return a message with this text in that field."""
    file = OutboundFile("a.txt", text="x")
    match kind.__name__:
        case "OutboundPart":
            return OutboundPart(text)
        case "Button":
            return OutboundPart("Choose", buttons=(Button(text, "c:x"),))
        case "OutboundFile":
            return OutboundPart("", files=(dataclasses.replace(file, **{name: text}),))
        case "Entity":
            return OutboundPart("here", (Entity("text_link", 0, 4, {"url": text}),))
    raise AssertionError(f"{kind.__name__}.{name} goes out, and nothing here looks at it")


def links(part: OutboundPart) -> list[str]:
    """Return the pieces of text that a client would turn into links."""
    units, code = offsets(part.text), set[int]()
    for entity in part.entities:
        if entity.type in ("code", "pre"):
            code.update(range(entity.offset, entity.offset + entity.length))
    texts = [
        part.text[a:b]
        for a, b in addresses(part.text)
        if not code >= set(range(units[a], units[b]))
    ]
    texts += [str(entity.extra["url"]) for entity in part.entities if "url" in entity.extra]
    plain = [button.label for button in part.buttons] + [file.name for file in part.files]
    return texts + [text[a:b] for text in plain for a, b in addresses(text)]


@pytest.mark.parametrize("where", sorted(set(texts_of(OutboundPart)) - HIDDEN, key=str), ids=str)
@pytest.mark.parametrize("link", [LINK, BARE, f"mail {BARE}/x and 😀 {LINK}."])
@pytest.mark.parametrize("kind", typing.get_args(OutboundKind))
def test_outgoing_fields_contain_no_link(
    db: Transaction, where: tuple[type, str], link: str, kind: OutboundKind
) -> None:
    dangerous(db)
    part = message_with_text(*where, link)
    assert links(part)
    assert links(outgoing_part(db, part, kind=kind)) == []


@pytest.mark.parametrize("where", sorted(set(texts_of(OutboundPart)) - HIDDEN, key=str), ids=str)
def test_other_outgoing_fields_are_unchanged(db: Transaction, where: tuple[type, str]) -> None:
    part = message_with_text(*where, LINK)
    assert outgoing_part(db, part) == part


def test_reply_has_the_taint_of_its_conversation(db: Transaction) -> None:
    assert links(outgoing_part(db, OutboundPart(LINK), taint=BOTH)) == []


def test_allowed_links_of_an_answer_stay_and_its_other_fields_are_defused(
    db: Transaction,
) -> None:
    dangerous(db)
    file, button = OutboundFile("www.secret.evil.example.txt", text=""), Button(LINK, "c:x")
    read = outgoing_part(db, OutboundPart(LINK, (), (button,), (file,)), is_read=True)
    assert links(read) == [LINK]
    assert read.files[0].name == "www_secret_evil_example.txt"
    assert read.buttons[0].label == "https[:]//evil[.]example/?d=secret"


def test_defused_link_keeps_surrounding_formatting(db: Transaction) -> None:
    dangerous(db)
    text = f"😀 see {BARE} now"
    part = outgoing_part(db, OutboundPart(text, (Entity("bold", 0, len(text) + 1),)))
    assert part.text == text
    assert part.entities == (
        Entity("bold", 0, 7),
        Entity("code", 7, len(BARE)),
        Entity("bold", 7 + len(BARE), 4),
    )


def test_terminal_gets_markdown_without_links(db: Transaction) -> None:
    route = Route("cli", "local", "x")
    dangerous(db, route.lane)
    assert (
        outgoing_part(db, OutboundPart(f"[this]({LINK})"), route=route).text == f"this (`{LINK}`)"
    )


def test_address_is_defused_when_its_code_format_is_dropped(db: Transaction) -> None:
    part = OutboundPart(f"run 😀 {LINK} now", (Entity("code", 7, len(LINK)),))
    outbox.put(db, None, [OutgoingReply("d", ROUTE, [part])], 1.0)
    due = outbox.head(db, ROUTE.lane, 10.0)
    assert isinstance(due, PendingPart)
    outbox.make_plain(db, due.seq)
    plain = outbox.head(db, ROUTE.lane, 10.0)
    assert isinstance(plain, PendingPart)
    content = plain.message.content
    assert content == OutboundPart("run 😀 https[:]//evil[.]example/?d=secret now")
    assert links(content) == []


def test_outbox_is_filled_in_one_module() -> None:
    folder = Path(gateway.__file__).parent
    places = [
        path.name
        for path in folder.rglob("*.py")
        if re.search(r"INSERT (?:OR \w+ )?INTO outbox", path.read_text())
    ]
    assert places == ["outbox.py"]
