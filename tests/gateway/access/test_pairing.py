"""Pairing codes, limits and lock-outs on a real database."""

import pytest

from gateway.access.control import AccessControl
from gateway.access.pairing import (
    ALPHABET,
    CODE_LETTERS,
    CODE_TTL_S,
    MAX_OPEN_CODES,
    MAX_TRIES,
    REJECTION_TTL_S,
    PairingCodes,
    plain_name,
)
from gateway.core.messages import Sender
from gateway.store.port import Transaction
from gateway.store.repositories.access import members
from tests.gateway import stored
from tests.gateway.parts import chat_message
from tests.gateway.store.transactions import OpenTransaction

NOW = 1_000_000.0
CLI = "cli:0"


@pytest.fixture
def access() -> AccessControl:
    return AccessControl(None, {("chat", "bot"): ()})


@pytest.fixture
def pairing(access: AccessControl) -> PairingCodes:
    return PairingCodes(access)


def ask(pairing: PairingCodes, tx: Transaction, sender: str, now: float = NOW) -> str | None:
    message = chat_message("hi", sender, sender=Sender(sender, f"Person {sender}"))
    return pairing.ask(tx, message, now)


def ask_code(pairing: PairingCodes, tx: Transaction, sender: str, now: float = NOW) -> str:
    code = ask(pairing, tx, sender, now)
    assert code is not None
    return code


def test_code_has_forty_bits_and_no_ambiguous_characters() -> None:
    assert len(ALPHABET) ** CODE_LETTERS >= 2**40
    assert len(set(ALPHABET)) == len(ALPHABET)
    assert not set(ALPHABET) & set("01OI")


def test_correct_code_in_any_spelling_works_once(
    pairing: PairingCodes, tx: Transaction, access: AccessControl
) -> None:
    access.owner = "chat:7"
    code = ask_code(pairing, tx, "9")
    mine = chat_message("x", "9", sender=Sender("9"))
    assert not access.is_allowed(mine)
    typed = f" {code.lower().replace('-', ' ')} "
    assert pairing.approve(tx, typed, CLI, NOW).request is not None
    assert access.is_allowed(mine)
    assert not access.is_allowed(chat_message("x", "8", sender=Sender("8", "Person 9")))
    assert not access.is_allowed(chat_message("x", "9", sender=Sender("9"), account="other"))
    assert pairing.approve(tx, code, CLI, NOW).reason == "unknown"


def test_rolled_back_approval_can_be_repeated_for_the_owner(
    pairing: PairingCodes, tx: Transaction, access: AccessControl
) -> None:
    """After a full disk, the same approval is retried and still counts as the first."""
    code = ask_code(pairing, tx, "9")
    tx.run("BEGIN")
    assert pairing.approve(tx, code, CLI, NOW).owner
    tx.run("ROLLBACK")
    assert pairing.approve(tx, code, CLI, NOW).owner
    assert access.owner_id == "chat:9"


def test_first_approved_person_becomes_the_owner(
    pairing: PairingCodes, tx: Transaction, access: AccessControl
) -> None:
    first, second = ask_code(pairing, tx, "9"), ask_code(pairing, tx, "8")
    assert pairing.approve(tx, second, CLI, NOW).owner
    assert not pairing.approve(tx, first, CLI, NOW).owner
    assert access.owner_id == "chat:8"
    assert access.role(chat_message("x", "9", sender=Sender("9"))) == "general"


def test_configured_owner_overrides_the_paired_owner(
    pairing: PairingCodes, tx: Transaction
) -> None:
    pairing.approve(tx, ask_code(pairing, tx, "9"), CLI, NOW)
    configured = AccessControl("chat:7", {})
    PairingCodes(configured).load(tx)
    assert configured.owner_id == "chat:7"
    assert not configured.is_owner(chat_message("x", "9", sender=Sender("9")))
    assert configured.is_allowed(chat_message("x", "9", sender=Sender("9")))


def test_person_gets_only_one_code_per_hour(pairing: PairingCodes, tx: Transaction) -> None:
    code = ask_code(pairing, tx, "9")
    assert ask(pairing, tx, "9", NOW + CODE_TTL_S - 1) is None
    later = NOW + CODE_TTL_S
    assert pairing.approve(tx, code, CLI, later).reason == "unknown"
    assert ask(pairing, tx, "9", later) is not None


def test_number_of_open_codes_is_limited(pairing: PairingCodes, tx: Transaction) -> None:
    codes = [ask(pairing, tx, str(n)) for n in range(500)]
    assert len(list(filter(None, codes))) == MAX_OPEN_CODES
    assert len(members.requests(tx, NOW)) == MAX_OPEN_CODES
    assert stored.count(tx, "pairing") == MAX_OPEN_CODES
    assert ask(pairing, tx, "9999", NOW + CODE_TTL_S) is not None


def test_groups_get_no_code(pairing: PairingCodes, tx: Transaction) -> None:
    assert pairing.ask(tx, chat_message("x", "-5", private=False), NOW) is None


def test_wrong_codes_increase_the_lockout(
    pairing: PairingCodes, tx: Transaction, access: AccessControl
) -> None:
    code = ask_code(pairing, tx, "9")
    for _ in range(MAX_TRIES):
        verdict = pairing.approve(tx, "AAAA-AAAA", "chat:7", NOW)
        assert verdict.reason == "unknown"
    # The lock is a database row, so a new process sees it.
    again = PairingCodes(access)
    assert again.approve(tx, code, "chat:7", NOW + 59).reason == "locked"
    longer = again.approve(tx, "AAAA-AAAA", "chat:7", NOW + 61)
    assert (longer.reason, longer.wait_s) == ("unknown", 120)
    assert again.approve(tx, code, "chat:7", NOW + 61 + 119).reason == "locked"
    assert again.deny(tx, code, "chat:7", NOW + 61 + 119).reason == "locked"
    # Only the guesser is locked out; a correct code resets the count.
    assert again.approve(tx, code, CLI, NOW + 61).request is not None
    other = ask_code(again, tx, "8", NOW + 61)
    assert again.approve(tx, other, "chat:7", NOW + 61 + 121).request is not None
    assert members.guesses(tx, "chat:7") == (0, 0.0)


def test_lockout_is_at_most_a_day(pairing: PairingCodes, tx: Transaction) -> None:
    now = NOW
    for _ in range(20):
        now += pairing.approve(tx, "AAAA-AAAA", CLI, now).wait_s
    verdict = pairing.approve(tx, "AAAA-AAAA", CLI, now)
    assert verdict.wait_s == 24 * 3600


def test_rejected_or_removed_person_gets_no_code_for_a_day(
    pairing: PairingCodes, tx: Transaction, access: AccessControl
) -> None:
    pairing.deny(tx, ask_code(pairing, tx, "9"), CLI, NOW)
    pairing.approve(tx, ask_code(pairing, tx, "8"), CLI, NOW)
    assert pairing.revoke(tx, "chat:8", NOW)
    assert not access.is_allowed(chat_message("x", "8", sender=Sender("8")))
    assert access.owner_id is None
    assert not pairing.revoke(tx, "chat:8", NOW)
    for sender in ("8", "9"):
        assert ask(pairing, tx, sender, NOW + REJECTION_TTL_S - 1) is None
    for sender in ("8", "9"):
        assert ask(pairing, tx, sender, NOW + REJECTION_TTL_S) is not None


def test_only_the_hash_of_a_code_is_stored(pairing: PairingCodes, tx: OpenTransaction) -> None:
    code = ask_code(pairing, tx, "9").replace("-", "")
    stored = tx.content()
    assert b"Person 9" in stored
    assert code.encode() not in stored
    assert code.encode().hex().upper().encode() not in stored.upper()


def test_name_contains_no_markup_or_line_break() -> None:
    assert plain_name("[tap](http://x.y) *me*\n# now") == "tap http x.y me now"
    assert len(plain_name("x" * 500)) == 40
    assert plain_name("Zoë O'Neil-Ng 李") == "Zoë O'Neil-Ng 李"


def invite(pairing: PairingCodes, tx: Transaction, now: float = NOW) -> str:
    return pairing.invite(tx, "chat", "bot", now)


def test_invitation_makes_one_person_the_owner_once(
    pairing: PairingCodes, tx: Transaction, access: AccessControl
) -> None:
    code = invite(pairing, tx)
    bearer = chat_message("hi", "9", sender=Sender("9", "Ann"))
    assert pairing.redeem(tx, bearer, f"{code}x", NOW) is None
    assert pairing.redeem(tx, chat_message("hi", "9", private=False), code, NOW) is None
    assert access.owner_id is None
    asking = pairing.redeem(tx, bearer, code, NOW)
    assert asking is not None
    assert asking.person.name == "Ann"
    assert access.owner_id == "chat:9"
    assert pairing.redeem(tx, chat_message("hi", "8"), code, NOW) is None
    assert access.owner_id == "chat:9"


def test_expired_or_replaced_invitation_is_void(
    pairing: PairingCodes, tx: Transaction, access: AccessControl
) -> None:
    first, second = invite(pairing, tx), invite(pairing, tx)
    assert pairing.redeem(tx, chat_message("hi", "9"), first, NOW) is None
    assert pairing.redeem(tx, chat_message("hi", "9"), second, NOW + CODE_TTL_S) is None
    assert access.owner_id is None


def test_invitation_is_limited_to_one_bot_and_hidden_from_requests(
    pairing: PairingCodes, tx: OpenTransaction, access: AccessControl
) -> None:
    code = pairing.invite(tx, "chat", "other", NOW)
    assert pairing.redeem(tx, chat_message("hi", "9"), code, NOW) is None
    assert members.requests(tx, NOW) == []
    assert pairing.approve(tx, code, CLI, NOW).reason == "unknown"
    assert access.owner_id is None
    assert code not in tx.content().decode("latin-1")
