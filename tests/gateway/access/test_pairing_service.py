"""The owner's notice about a stranger: its buttons, and its removal from the store."""

import json
from collections.abc import Sequence

import pytest

from agent.security.redaction import Redactor
from gateway.access.control import AccessControl
from gateway.access.pairing import CODE_TTL_S, PairingCodes
from gateway.access.pairing_service import PairingService
from gateway.core.messages import InboundMessage, Sender
from gateway.delivery.renderer import ReplyRenderer
from gateway.delivery.user_language import UserLanguages
from gateway.store.port import Transaction
from gateway.store.repositories.delivery import inbox, outbox
from gateway.store.repositories.delivery.inbox import InboxBatch, InboxEntry
from tests.gateway import stored
from tests.gateway.parts import chat_message

NOW = 1_000_000.0625
OWNER = "7"
REPLY = "pair:chat:bot:9:1000000062:owner"


def pairing_service(access: AccessControl) -> PairingService:
    return PairingService(
        access=access,
        codes=PairingCodes(access),
        renderer=ReplyRenderer({}, Redactor()),
        languages=UserLanguages(),
    )


def access_of(owner: str | None, allow: Sequence[str] = ()) -> AccessControl:
    return AccessControl(owner, {("chat", "bot"): allow})


@pytest.fixture
def access() -> AccessControl:
    return access_of("chat:7")


@pytest.fixture
def pairing(tx: Transaction, access: AccessControl) -> PairingService:
    pairing = pairing_service(access)
    assert pairing.handle_stranger(tx, chat_message("hi", "9", sender=Sender("9", "Ann")), NOW)
    return pairing


def press_button(data: str, chat: str = OWNER, **more: object) -> InboundMessage:
    return chat_message(data, chat, sender=Sender(OWNER), kind="button", **more)


def owner_messages(tx: Transaction) -> list[tuple[str, str, list[str], str | None]]:
    rows = stored.read(tx, "outbox", "delivery_id", "body", "buttons", "edits", chat="7")
    return [
        (name, body, [button["data"] for button in json.loads(buttons)], edits)
        for name, body, buttons, edits in rows
    ]


def sent(tx: Transaction, name: str = REPLY) -> None:
    ((seq,),) = stored.read(tx, "outbox", "seq", delivery_id=name)
    outbox.set_sent(tx, seq, "77")


def test_delivered_pairing_notice_is_cleared(pairing: PairingService, tx: Transaction) -> None:
    ((name, body, buttons, _),) = owner_messages(tx)
    assert name == REPLY
    assert "Ann (chat:9) wants to talk to me" in body
    assert buttons == ["pair:y:9:1000000062", "pair:n:9:1000000062"]
    sent(tx)
    assert owner_messages(tx) == [(REPLY, "", [], None)]


def test_abandoned_pairing_notice_is_cleared(pairing: PairingService, tx: Transaction) -> None:
    ((seq,),) = stored.read(tx, "outbox", "seq", chat="7")
    outbox.give_up(tx, seq, "gone")
    assert owner_messages(tx) == [(REPLY, "", [], None)]


def test_expired_request_is_rejected_and_loses_its_buttons(
    pairing: PairingService, access: AccessControl, tx: Transaction
) -> None:
    sent(tx)
    press = press_button("pair:y:9:1000000062")
    late = NOW + CODE_TTL_S
    for _ in range(2):
        assert pairing.press(tx, press, late).startswith("Too late")
    assert not access.is_allowed(chat_message("hi", "9", sender=Sender("9")))
    _, (name, body, buttons, edits) = owner_messages(tx)
    assert (name, buttons, edits) == (f"{REPLY}:done", [], REPLY)
    assert body == "Someone (chat:9) wanted to talk to me.\n\n⌛ Expired."


def test_later_request_has_its_own_buttons(
    pairing: PairingService, access: AccessControl, tx: Transaction
) -> None:
    sent(tx)
    later = NOW + 24 * 3600
    assert pairing.handle_stranger(tx, chat_message("hi", "9", sender=Sender("9", "Ann")), later)
    assert pairing.press(tx, press_button("pair:y:9:1000000062"), later).startswith("Too late")
    assert not access.is_allowed(chat_message("hi", "9", sender=Sender("9")))
    new = round(later * 1000)
    text = pairing.press(tx, press_button(f"pair:y:9:{new}"), later)
    assert text == "Ann (chat:9) is approved."
    assert access.is_allowed(chat_message("hi", "9", sender=Sender("9")))


@pytest.mark.parametrize(
    "data",
    ["pair:", "pair:y", "pair:x:9:1000000062", "pair:y:9:", "pair:y:9:" + "1" * 5000, "pair:y:8:1"],
)
def test_unknown_button_does_nothing(pairing: PairingService, tx: Transaction, data: str) -> None:
    assert pairing.press(tx, press_button(data), NOW) == "This button no longer works."


@pytest.mark.parametrize(("listed", "waiting"), [((), 0), (("9",), 2), (("*",), 2)])
def test_pending_messages_of_a_removed_person_are_dropped(
    tx: Transaction, listed: tuple[str, ...], waiting: int
) -> None:
    pairing = pairing_service(access_of("chat:7", listed))
    pairing.handle_stranger(tx, chat_message("hi", "9", sender=Sender("9", "Ann")), NOW)
    pairing.press(tx, press_button("pair:y:9:1000000062"), NOW)
    for text, chat, who in (("a", "9", "9"), ("b", "-5", "9"), ("c", "-5", "7"), ("d", "8", "99")):
        message = chat_message(text, chat, sender=Sender(who), private=chat != "-5")
        inbox.accept(tx, InboxBatch("chat", "bot", NOW), [InboxEntry(message)])
    assert inbox.waiting_count(tx) == 4
    pairing.revoke(tx, "chat:9", "cli:0", NOW)
    assert inbox.waiting_count(tx) == 2 + waiting


def test_press_by_the_owner_in_a_group_is_ignored(pairing: PairingService, tx: Transaction) -> None:
    press = press_button("pair:y:9:1000000062", private=False)
    assert pairing.press(tx, press, NOW) == "This request belongs to another chat."


def test_request_decided_before_delivery_is_not_sent(
    pairing: PairingService, tx: Transaction
) -> None:
    assert pairing.revoke(tx, "chat:9", "cli:0", NOW)[0]
    ((_, body, buttons, _),) = owner_messages(tx)
    assert (body, buttons) == ("", [])


def test_people_list_shows_requests_members_and_owner(tx: Transaction) -> None:
    access = access_of(None)
    pairing = pairing_service(access)
    for sender, name in (("7", "Olga"), ("8", "Bob"), ("9", "Ann")):
        message = chat_message("hi", sender, sender=Sender(sender, name))
        code = PairingCodes(access).ask(tx, message, NOW)
        if code is not None and sender != "9":
            assert pairing.approve(tx, code, "cli:0", NOW)[0]
    text = pairing.command(tx, chat_message("/pair", OWNER, sender=Sender(OWNER)), "list", NOW)
    assert text.split("\n")[:3] == [
        "- Ann (chat:9) wants to talk to me",
        "- Olga (chat:7) is the owner",
        "- Bob (chat:8) is paired",
    ]
