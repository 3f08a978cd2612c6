"""Repository for members, pairing requests and wrong guesses of pairing codes."""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace

from agent.records import frozen
from gateway.store.conditions import DENIED, WAITING
from gateway.store.errors import SealBroken
from gateway.store.port import Row, Transaction

MAX_DENIED = 1_000
_MEMBER, _PAIRING = "member.name", "pairing.name"


@frozen
class Person:
    """A person on a channel's account; `name` is only for display."""

    channel: str
    account: str
    sender: str
    name: str = ""

    @property
    def principal(self) -> str:
        return f"{self.channel}:{self.sender}"


@frozen
class Member:
    person: Person
    owner: bool
    approved_by: str
    approved_at: float


# Sender of an unused invitation. No platform uses this id.
ANYBODY = ""


@frozen
class PairingRequest:
    """Open request; `chat` is the chat in which its sender wrote."""

    person: Person
    chat: str
    asked_at: float
    expires_at: float


def members(tx: Transaction) -> list[Member]:
    rows = tx.all(
        "SELECT channel, account, sender, name, is_owner, approved_by, approved_at FROM member"
        " ORDER BY approved_at"
    )
    return list(_readable(tx, rows))


def _readable(tx: Transaction, rows: Iterable[Row]) -> Iterator[Member]:
    """Yield the members. A row that was changed outside of Kore admits no one."""
    for channel, account, sender, name, owner, by, at in rows:
        key = (channel, account, sender)
        with suppress(SealBroken):
            opened = tx.unseal(name, _MEMBER, *key, owner, by)
            yield Member(Person(*key, opened), bool(owner), by, at)


def add_member(
    tx: Transaction, person: Person, *, owner: bool, approved_by: str, now: float
) -> None:
    """Approve a person; a new owner replaces the previous one."""
    before = members(tx)
    if owner:
        for member in before:
            if member.owner:
                _put_member(tx, replace(member, owner=False))
    elif any(_key(member.person) == _key(person) and member.owner for member in before):
        owner = True
    _put_member(tx, Member(person, owner, approved_by, now))


def _put_member(tx: Transaction, member: Member) -> None:
    key = _key(member.person)
    owner = int(member.owner)
    name = tx.seal(member.person.name, _MEMBER, *key, owner, member.approved_by)
    tx.run(
        "INSERT INTO member (channel, account, sender, name, is_owner, approved_by, approved_at)"
        " VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (channel, account, sender) DO UPDATE SET"
        " name = excluded.name, is_owner = excluded.is_owner,"
        " approved_by = excluded.approved_by, approved_at = excluded.approved_at",
        (*key, name, owner, member.approved_by, member.approved_at),
    )


def remove_member(tx: Transaction, channel: str, sender: str, until: float) -> bool:
    """Remove a person from every account, and reject their requests until the given time.

    Their grants are deleted with them. Returns False if there was no such member.
    """
    for account, at in tx.all(
        "SELECT account, approved_at FROM member WHERE channel = ? AND sender = ?",
        (channel, sender),
    ):
        _put_request(tx, Person(channel, account, sender), "", None, (at, until))
    removed = tx.run("DELETE FROM member WHERE channel = ? AND sender = ?", (channel, sender))
    if not removed:
        return False
    tx.run("DELETE FROM permission_grant WHERE principal = ?", (f"{channel}:{sender}",))
    return True


def refuse_waiting(tx: Transaction, principal: str) -> None:
    """Treat a person's messages as a stranger's if no turn has begun to answer them."""
    tx.run(
        # The empty text makes the query use the index of waiting rows, not of all rows of a person.
        f"UPDATE inbox SET dead_reason = '{DENIED}' WHERE principal || '' = ? AND {WAITING}",
        (principal,),
    )


def open_request(
    tx: Transaction, person: Person, chat: str, code_hash: bytes, times: tuple[float, float]
) -> None:
    """Store a pairing request; `times` are the times of the request and of its expiry."""
    _put_request(tx, person, chat, code_hash, times)


def _put_request(
    tx: Transaction,
    person: Person,
    chat: str,
    code_hash: bytes | None,
    times: tuple[float, float],
) -> None:
    """Store a request, replacing an earlier one; without a hash it cannot be approved."""
    key = _key(person)
    name = tx.seal(person.name, _PAIRING, *key, chat, code_hash)
    tx.run(
        "INSERT INTO pairing (channel, account, sender, name, chat, code_hash, asked_at,"
        " expires_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (channel, account, sender)"
        " DO UPDATE SET name = excluded.name, chat = excluded.chat,"
        " code_hash = excluded.code_hash, asked_at = excluded.asked_at,"
        " expires_at = excluded.expires_at",
        (*key, name, chat, code_hash, *times),
    )


def forget_expired(tx: Transaction, now: float) -> None:
    tx.run("DELETE FROM pairing WHERE expires_at <= ?", (now,))


def has_request(tx: Transaction, person: Person, now: float) -> bool:
    """Return whether a person has an open or recently rejected request."""
    (exists,) = tx.one(
        "SELECT EXISTS (SELECT 1 FROM pairing WHERE channel = ? AND account = ? AND sender = ?"
        " AND expires_at > ?)",
        (*_key(person), now),
    )
    return bool(exists)


def requests(tx: Transaction, now: float) -> list[tuple[PairingRequest, bytes]]:
    """Return the open requests, oldest first, each with the hash of its code."""
    rows = tx.all(
        "SELECT channel, account, sender, name, chat, asked_at, expires_at, code_hash FROM pairing"
        " WHERE code_hash IS NOT NULL AND sender <> ? AND expires_at > ? ORDER BY asked_at",
        (ANYBODY, now),
    )
    return list(_readable_requests(tx, rows))


def _readable_requests(
    tx: Transaction, rows: Iterable[Row]
) -> Iterator[tuple[PairingRequest, bytes]]:
    for channel, account, sender, name, chat, asked_at, expires_at, code_hash in rows:
        key, code = (channel, account, sender), bytes(code_hash)
        with suppress(SealBroken):
            person = Person(*key, tx.unseal(name, _PAIRING, *key, chat, code))
            yield PairingRequest(person, chat, asked_at, expires_at), code


def invitation(tx: Transaction, channel: str, account: str, now: float) -> bytes | None:
    """Return the hash of the code that makes a person the owner; None without an invitation."""
    rows = tx.all(
        "SELECT channel, account, sender, name, chat, asked_at, expires_at, code_hash FROM pairing"
        " WHERE channel = ? AND account = ? AND sender = ? AND code_hash IS NOT NULL"
        " AND expires_at > ?",
        (channel, account, ANYBODY, now),
    )
    return next((code_hash for _, code_hash in _readable_requests(tx, rows)), None)


def close_request(tx: Transaction, person: Person) -> None:
    tx.run("DELETE FROM pairing WHERE channel = ? AND account = ? AND sender = ?", _key(person))


def reject(tx: Transaction, channel: str, sender: str, until: float) -> bool:
    """Void a person's open requests and block new ones until `until`; False without any."""
    rows = tx.all(
        "SELECT account, chat, asked_at FROM pairing"
        " WHERE channel = ? AND sender = ? AND code_hash IS NOT NULL",
        (channel, sender),
    )
    for account, chat, asked_at in rows:
        _put_request(tx, Person(channel, account, sender), chat, None, (asked_at, until))
    return bool(rows)


def guesses(tx: Transaction, principal: str) -> tuple[int, float]:
    """Return the number of consecutive wrong codes and the time until which codes are ignored."""
    row = tx.first(
        "SELECT failures, locked_until FROM pairing_attempt WHERE principal = ?", (principal,)
    )
    return (int(row[0]), float(row[1])) if row else (0, 0.0)


def set_guesses(tx: Transaction, principal: str, wrong: int, locked_until: float) -> None:
    tx.run(
        "INSERT INTO pairing_attempt (principal, failures, locked_until) VALUES (?, ?, ?) ON"
        " CONFLICT"
        " (principal) DO UPDATE SET failures = excluded.failures, locked_until ="
        " excluded.locked_until",
        (principal, wrong, locked_until),
    )


def forget_guesses(tx: Transaction, principal: str) -> None:
    tx.run("DELETE FROM pairing_attempt WHERE principal = ?", (principal,))


def forget_denied(tx: Transaction) -> None:
    """Delete all but the newest messages of strangers, who may write without limit."""
    denied = f"SELECT seq FROM inbox WHERE dead_reason = '{DENIED}' ORDER BY seq DESC"
    tx.run(
        f"DELETE FROM inbox WHERE dead_reason = '{DENIED}' AND seq <="
        f" ({denied} LIMIT 1 OFFSET {MAX_DENIED})"
    )


def _key(person: Person) -> tuple[str, str, str]:
    return person.channel, person.account, person.sender
