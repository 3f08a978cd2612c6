"""Mutual proof of a shared key over one connection, in which the key itself is never sent.

A client names the key by its id and sends a nonce, the server answers with its own nonce and a
proof, and the client replies with another proof. Each proof is an HMAC over the host that the
client has dialled, the key's id and both nonces: a proof for one connection is worth nothing for
another, nor for a program that passes everything on from another address.
"""

import hashlib
import hmac
import re
import secrets
from collections.abc import Mapping
from typing import Any

from yarl import URL

from agent.records import frozen

# The WebSocket subprotocol; the one behind it is the client's `KEYID.NONCE`.
SUBPROTOCOL = "kore"
_CLAIM = re.compile(r"[0-9a-f]{32}\.[0-9a-f]{32}")


def key_of(secret: str) -> bytes:
    """Return the key that a token's secret stands for."""
    return hashlib.sha256(secret.encode()).digest()


def key_id(key: bytes) -> str:
    """Return the public name of a key."""
    return hashlib.sha256(b"kore key id\n" + key).hexdigest()[:32]


class KeyMismatch(Exception):
    """The other side does not know the key."""


@frozen
class KeyClaim:
    """A client's opening: the id of its key, and its nonce."""

    id: str
    nonce: str

    @classmethod
    def new(cls, key: bytes) -> "KeyClaim":
        return cls(key_id(key), secrets.token_hex(16))

    @classmethod
    def parse(cls, protocols: str) -> "KeyClaim | None":
        """Return the claim in the header Sec-WebSocket-Protocol, None where it has none."""
        names = [name.strip() for name in protocols.split(",")]
        if names[0] != SUBPROTOCOL or len(names) != 2 or not _CLAIM.fullmatch(names[1]):
            return None
        return cls(*names[1].split("."))

    @property
    def protocols(self) -> tuple[str, str]:
        return SUBPROTOCOL, f"{self.id}.{self.nonce}"


@frozen
class KeyProof:
    """The proofs of one connection to `host`, as the header Host names it."""

    key: bytes
    host: str
    claim: KeyClaim
    server_nonce: str

    def opening(self) -> dict[str, str]:
        """Return the server's first frame."""
        return {"nonce": self.server_nonce, "proof": self._sign("server").hex()}

    def is_proven_by(self, frame: Mapping[str, Any]) -> bool:
        """Return whether a frame of the client proves that it knows the key."""
        return _is_equal(frame.get("proof"), self._sign("client"))

    def derived_key(self) -> bytes:
        """Return a new key that both sides know by now."""
        return self._sign("browser key")

    def _sign(self, label: str) -> bytes:
        parts = (f"kore {label}", self.host, self.claim.id, self.claim.nonce, self.server_nonce)
        return hmac.digest(self.key, "\n".join(parts).encode(), "sha256")


def literal_address(address: str, literal: str = "127.0.0.1") -> str:
    """Return a URL with an address in place of `localhost`, unless a certificate names it.

    `localhost` is 127.0.0.1 and `::1`, and at the one that Kore does not hold, another user of the
    machine may listen and pass on what a client says."""
    url = URL(address)
    if url.scheme != "http" or url.host != "localhost":
        return address
    return str(url.with_host(literal)).rstrip("/")


def new_proof(key: bytes, host: str, claim: KeyClaim) -> KeyProof:
    """Return the server's side of a connection that begins now."""
    return KeyProof(key, host, claim, secrets.token_hex(16))


def answer(key: bytes, host: str, claim: KeyClaim, opening: Mapping[str, Any]) -> dict[str, str]:
    """Return a client's answer to the server's first frame. Raises `KeyMismatch` for a server that
    does not know the key: it gets no proof."""
    proof = KeyProof(key, host, claim, str(opening.get("nonce")))
    if not _is_equal(opening.get("proof"), proof._sign("server")):
        raise KeyMismatch
    return {"proof": proof._sign("client").hex()}


def _is_equal(proof: object, expected: bytes) -> bool:
    return isinstance(proof, str) and hmac.compare_digest(
        proof.encode("utf-8", "replace"), expected.hex().encode()
    )
