"""Pairing codes: an unknown person gets a code, and the owner decides on it.

A code is bound to the numeric id of the requester. Only its hash is stored; the message with the
code is emptied once it is sent.
"""

import hashlib
import hmac
import re
import secrets
from collections.abc import Callable
from dataclasses import replace
from typing import Literal

from agent.i18n import t
from agent.records import frozen
from gateway.access.control import AccessControl, PairedMembers
from gateway.core.messages import InboundMessage
from gateway.store.port import Transaction
from gateway.store.repositories.access import members
from gateway.store.repositories.access.members import PairingRequest, Person

# Without 0, O, 1 and I: 32 characters, so that 8 of them make 40 bits.
ALPHABET = "ABCDEFGHJKLMNPQRSTUVWXYZ23456789"
CODE_LETTERS = 8
CODE_TTL_S = 3600.0
# Part of a link and never typed, so it is long enough for a fast hash to be safe.
_INVITATION_BYTES = 16
MAX_OPEN_CODES = 20
REJECTION_TTL_S = 24 * 3600.0
MAX_TRIES = 5
_FIRST_LOCK_S, _LONGEST_LOCK_S = 60.0, 24 * 3600.0
_NAME_CHARS = 40
# Guessing a stored hash takes longer than the code is valid; one hash takes milliseconds.
_ROUNDS = 20_000


@frozen
class PairingResult:
    """Result of a code: the request; `owner` if the person becomes the owner.

    If there is a `reason`, nothing has changed; `wait_s` is the time during which no code is
    checked.
    """

    request: PairingRequest | None = None
    owner: bool = False
    reason: Literal["unknown", "locked"] | None = None
    wait_s: float = 0.0


class PairingCodes:
    """Pairing codes and members, inside the caller's transactions.

    `access` is updated after the commit; then `on_changed` is called.
    """

    def __init__(
        self, access: AccessControl, on_changed: Callable[[], None] = lambda: None
    ) -> None:
        self._access = access
        self._on_changed = on_changed

    def load(self, tx: Transaction) -> None:
        """Replace the members of `access` with the stored ones after the commit."""
        circle = _members(tx)

        def keep() -> None:
            self._access.members = circle

        tx.after_commit(keep)

    def owner(self, tx: Transaction) -> str | None:
        """Return the owner, including changes of this transaction."""
        return self._access.owner or _members(tx).owner

    def ask(self, tx: Transaction, message: InboundMessage, now: float) -> str | None:
        """Return a new code for a stranger's private message; None when no code is available.

        Each person gets one code an hour; a limit over all people protects against a flood of ids.
        """
        person = Person(
            message.channel, message.account, message.sender.id, plain_name(message.sender.name)
        )
        members.forget_expired(tx, now)
        if not message.private or members.has_request(tx, person, now):
            return None
        if len(members.requests(tx, now)) >= MAX_OPEN_CODES:
            return None
        code = "".join(secrets.choice(ALPHABET) for _ in range(CODE_LETTERS))
        expires = now + CODE_TTL_S
        members.open_request(tx, person, message.chat_id, _hash(code), (now, expires))
        return f"{code[:4]}-{code[4:]}"

    def approve(self, tx: Transaction, code: str, by: str, now: float) -> PairingResult:
        """Admit the person with this code; they become the owner if there is none."""
        verdict = self._match_code(tx, code, by, now)
        request = verdict.request
        return verdict if request is None else self.admit(tx, request, by, now)

    def admit(self, tx: Transaction, request: PairingRequest, by: str, now: float) -> PairingResult:
        """Approve an open request without its code."""
        person = request.person
        owner = self.owner(tx) is None
        members.add_member(tx, person, owner=owner, approved_by=by, now=now)
        members.close_request(tx, person)
        self._reload(tx)
        return PairingResult(request, owner=owner)

    def invite(self, tx: Transaction, channel: str, account: str, now: float) -> str:
        """Return a code that makes its first user the owner; an earlier code becomes invalid."""
        code = secrets.token_urlsafe(_INVITATION_BYTES)
        nobody = Person(channel, account, members.ANYBODY)
        members.forget_expired(tx, now)
        members.close_request(tx, nobody)
        times = now, now + CODE_TTL_S
        members.open_request(tx, nobody, "", _fast_hash(code), times)
        return code

    def redeem(
        self, tx: Transaction, message: InboundMessage, code: str, now: float
    ) -> PairingRequest | None:
        """Make the person who presents an invitation's code in private the owner, once.

        Returns None for another code, or when there already is an owner.
        """
        code_hash = members.invitation(tx, message.channel, message.account, now)
        if code_hash is None or not message.private or self.owner(tx) is not None:
            return None
        if not hmac.compare_digest(code_hash, _fast_hash(code)):
            return None
        name = plain_name(message.sender.name)
        person = Person(message.channel, message.account, message.sender.id, name)
        members.close_request(tx, replace(person, sender=members.ANYBODY))
        request = PairingRequest(person, message.chat_id, now, now)
        self.admit(tx, request, person.principal, now)
        return request

    def deny(self, tx: Transaction, code: str, by: str, now: float) -> PairingResult:
        """Deny the request for which the code was sent."""
        verdict = self._match_code(tx, code, by, now)
        if verdict.request is not None:
            self.reject(tx, verdict.request, now)
        return verdict

    def reject(self, tx: Transaction, request: PairingRequest, now: float) -> None:
        """Reject a request; the person gets no new code for a day."""
        person = request.person
        members.reject(tx, person.channel, person.sender, now + REJECTION_TTL_S)

    def revoke(self, tx: Transaction, principal: str, now: float) -> bool:
        """Remove a person or reject their request; False when neither exists.

        A running turn of the person may finish; they get no new code for a day.
        """
        channel, _, sender = principal.partition(":")
        until = now + REJECTION_TTL_S
        was_member = members.remove_member(tx, channel, sender, until)
        had_request = members.reject(tx, channel, sender, until)
        self._reload(tx)
        return was_member or had_request

    def _reload(self, tx: Transaction) -> None:
        """Reload the members after the commit, and report the change."""
        self.load(tx)
        tx.after_commit(self._on_changed)

    def _match_code(self, tx: Transaction, code: str, by: str, now: float) -> PairingResult:
        """Return the request for a code; a wrong code counts against the person who tried it."""
        wrong, locked_until = members.guesses(tx, by)
        if locked_until > now:
            return PairingResult(reason="locked", wait_s=locked_until - now)
        code_hash = _hash(re.sub(r"[\s-]", "", code).upper())
        request = None
        for candidate, stored_hash in members.requests(tx, now):
            if hmac.compare_digest(stored_hash, code_hash):
                request = candidate
        if request is not None:
            members.forget_guesses(tx, by)
            return PairingResult(request)
        wrong += 1
        wait_s = _lock_s(wrong)
        members.set_guesses(tx, by, wrong, now + wait_s)
        return PairingResult(reason="unknown", wait_s=wait_s)


def _members(tx: Transaction) -> PairedMembers:
    let_in = members.members(tx)
    return PairedMembers(
        next((member.person.principal for member in let_in if member.owner), None),
        frozenset((m.person.channel, m.person.account, m.person.sender) for m in let_in),
    )


def plain_name(name: str) -> str:
    """Return a stranger's name for other readers: no markup, no line breaks, and short."""
    plain = "".join(c if c.isalnum() or c in " .'-" else " " for c in name)
    return " ".join(plain.split())[:_NAME_CHARS].strip(" .'-")


def _lock_s(wrong: int) -> float:
    """Return the lock time: none for the first few wrong codes, then a minute, doubling."""
    if wrong < MAX_TRIES:
        return 0.0
    return min(_FIRST_LOCK_S * 2.0 ** min(wrong - MAX_TRIES, 20), _LONGEST_LOCK_S)


def _hash(code: str) -> bytes:
    return hashlib.pbkdf2_hmac("sha256", code.encode(errors="replace"), b"kore pairing", _ROUNDS)


def _fast_hash(code: str) -> bytes:
    return hashlib.sha256(code.encode(errors="replace")).digest()


def refusal(verdict: PairingResult) -> str:
    """Return the reason why a code was not accepted."""
    if verdict.reason == "locked":
        return t("Too many wrong codes. Try again in {time}.", time=_duration(verdict.wait_s))
    if verdict.reason == "unknown":
        sentence = t("This code is wrong, already used, or expired (codes are valid for one hour).")
        if not verdict.wait_s:
            return sentence
        wait = t("Too many requests. Try again in {time}.", time=_duration(verdict.wait_s))
        return f"{sentence} {wait}"
    return ""


def _duration(seconds: float) -> str:
    minutes = max(1, round(seconds / 60))
    return t("{n} min", n=minutes) if minutes < 120 else t("{n} h", n=minutes // 60)
