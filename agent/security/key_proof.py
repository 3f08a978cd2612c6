"""Mutual proof of a shared key over a connection, without sending the key.

The client names the key by its id and sends a nonce. The server answers with its own nonce and a
proof, and the client replies with another proof. Each proof is an HMAC over the host that the
client dialled, the key's id and both nonces. A proof is therefore useless for another connection,
and for a program that relays everything from another address.
"""

import hashlib
import hmac
import re
import secrets
from collections.abc import Mapping
from typing import Any

from yarl import URL

from agent.records import frozen

# The WebSocket subprotocol. The header names a second one, the client's `KEYID.NONCE`.
SUBPROTOCOL = "kore"
_CLAIM = re.compile(r"[0-9a-f]{32}\.[0-9a-f]{32}")


def key_of(secret: str) -> bytes:
    """Return the key derived from a token's secret."""
    return hashlib.sha256(secret.encode()).digest()


def key_id(key: bytes) -> str:
    """Return the public name of a key."""
    return hashlib.sha256(b"kore key id\n" + key).hexdigest()[:32]


class KeyMismatch(Exception):
    """Error for a peer that does not know the key."""


@frozen
class KeyClaim:
    """Client's opening: the id of its key, and its nonce."""

    id: str
    nonce: str

    @classmethod
    def new(cls, key: bytes) -> "KeyClaim":
        return cls(key_id(key), secrets.token_hex(16))

    @classmethod
    def parse(cls, protocols: str) -> "KeyClaim | None":
        """Return the claim in the header Sec-WebSocket-Protocol, or None if there is none."""
        names = [name.strip() for name in protocols.split(",")]
        if names[0] != SUBPROTOCOL or len(names) != 2 or not _CLAIM.fullmatch(names[1]):
            return None
        return cls(*names[1].split("."))

    @property
    def protocols(self) -> tuple[str, str]:
        return SUBPROTOCOL, f"{self.id}.{self.nonce}"


@frozen
class KeyProof:
    """Proofs of one connection to `host`, as named in the Host header."""

    key: bytes
    host: str
    claim: KeyClaim
    server_nonce: str

    def opening(self) -> dict[str, str]:
        """Return the server's first frame."""
        return {"nonce": self.server_nonce, "proof": self._sign("server").hex()}

    def is_proven_by(self, frame: Mapping[str, Any]) -> bool:
        """Return whether a frame proves that the client knows the key."""
        return _is_equal(frame.get("proof"), self._sign("client"))

    def derived_key(self) -> bytes:
        """Return a new key that both sides can derive."""
        return self._sign("browser key")

    def _sign(self, label: str) -> bytes:
        parts = (f"kore {label}", self.host, self.claim.id, self.claim.nonce, self.server_nonce)
        return hmac.digest(self.key, "\n".join(parts).encode(), "sha256")


def literal_address(address: str, literal: str = "127.0.0.1") -> str:
    """Return an http URL with `localhost` replaced by a literal address.

    Other URLs do not change: the certificate of an https URL names the host. `localhost` is both
    127.0.0.1 and `::1`. On the address that Kore does not listen on, another user of the machine
    may listen and relay the client's data.
    """
    url = URL(address)
    if url.scheme != "http" or url.host != "localhost":
        return address
    return str(url.with_host(literal)).rstrip("/")


def new_proof(key: bytes, host: str, claim: KeyClaim) -> KeyProof:
    """Return the server's side of a new connection."""
    return KeyProof(key, host, claim, secrets.token_hex(16))


def answer(key: bytes, host: str, claim: KeyClaim, opening: Mapping[str, Any]) -> dict[str, str]:
    """Return a client's answer to the server's first frame.

    Raises `KeyMismatch` for a server that does not know the key; that server gets no proof.
    """
    proof = KeyProof(key, host, claim, str(opening.get("nonce")))
    if not _is_equal(opening.get("proof"), proof._sign("server")):
        raise KeyMismatch
    return {"proof": proof._sign("client").hex()}


def _is_equal(proof: object, expected: bytes) -> bool:
    return isinstance(proof, str) and hmac.compare_digest(
        proof.encode("utf-8", "replace"), expected.hex().encode()
    )
