"""Who may speak to the server: named tokens with scopes, of which only digests are kept.

A token is 32 random bytes, so that a plain SHA-256 of it tells nothing and finds it.
"""

import hashlib
import json
import re
import secrets
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Literal, get_args

from agent.errors import ConfigError, KoreError
from agent.i18n import t
from agent.records import frozen
from gateway.config.atomic_write import file_lock, write_atomic

Scope = Literal["read", "chat", "approve", "admin"]
SCOPES: tuple[Scope, ...] = get_args(Scope)

_PREFIX = "kore_"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_MOST = 200


@frozen
class AccessToken:
    """What a token may do. `created_at` is Unix time in seconds.

    One with a `role` does not speak for the owner: it is a person of its own (`api:NAME`), who may
    talk with Kore over the OpenAI-compatible API and do nothing else.
    """

    name: str
    scopes: frozenset[Scope]
    created_at: float
    role: str | None = None

    @property
    def identity(self) -> str:
        """What tells it from a later token of the same name."""
        return f"{self.name}@{self.created_at}"

    def allows(self, scope: Scope) -> bool:
        """An admin's token may do all, and who may speak may also look on."""
        if self.role is not None:
            return scope == "chat"
        return scope in self.scopes or "admin" in self.scopes or scope == "read"


class TokenFile:
    """The tokens in a file that only its owner can read. What another process changes in it counts
    from the next question on."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._stamp: tuple[int, int, int] | None = None
        self._tokens: dict[str, AccessToken] = {}

    def list(self) -> tuple[AccessToken, ...]:
        return tuple(self._load().values())

    def add(self, name: str, scopes: Iterable[Scope], role: str | None = None) -> str:
        """The new token's secret, which is told this once. Raises `KoreError`."""
        scopes = frozenset(scopes)
        if not _NAME.fullmatch(name):
            raise KoreError(
                t(
                    "found the name {name!r}, expected letters, digits, dots, dashes, at most 64",
                    name=name,
                )
            )
        if role is not None and scopes != {"chat"}:
            raise KoreError(
                t("a token with a role can only chat, found: {scopes}", scopes=", ".join(scopes)),
                hint=t("leave --scope out, or --role"),
            )
        if not scopes:
            raise KoreError(t("a token needs a scope: {scopes}", scopes=", ".join(SCOPES)))
        secret = _PREFIX + secrets.token_urlsafe(32)
        with file_lock(self._path):
            tokens = self._load()
            if any(token.name == name for token in tokens.values()):
                raise KoreError(
                    t("there is a token {name} already", name=name),
                    hint=t("`kore token revoke {name}` removes it", name=name),
                )
            if len(tokens) >= _MOST:
                raise KoreError(t("there are {count} tokens, the most there can be", count=_MOST))
            self._save({**tokens, _digest(secret): AccessToken(name, scopes, time.time(), role)})
        return secret

    def revoke(self, name: str) -> None:
        """Raises `KoreError` when there is none of this name."""
        with file_lock(self._path):
            tokens = self._load()
            others = {digest: token for digest, token in tokens.items() if token.name != name}
            if len(others) == len(tokens):
                raise KoreError(
                    t("no token {name}", name=name), hint=t("`kore token list` shows them")
                )
            self._save(others)

    def find(self, secret: str) -> AccessToken | None:
        """Whose it is."""
        return self._load().get(_digest(secret))

    def role_of(self, name: str) -> str | None:
        """The role of the token with this name; None for one that has none or is revoked, and for
        all while the file is broken."""
        try:
            return next((one.role for one in self.list() if one.name == name), None)
        except ConfigError:
            # The server says so to everybody who asks it.
            return None

    def _load(self) -> dict[str, AccessToken]:
        """Raises `ConfigError` for a file that somebody has broken."""
        try:
            info = self._path.stat()
            stamp = (info.st_mtime_ns, info.st_size, info.st_ino)
            if stamp != self._stamp:
                data = json.loads(self._path.read_bytes())
                self._tokens = {digest: _token(one) for digest, one in data["tokens"].items()}
                self._stamp = stamp
        except FileNotFoundError:
            self._stamp, self._tokens = None, {}
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as exc:
            raise ConfigError(
                t("{path}: cannot be read as a file of tokens", path=self._path),
                hint=t("delete it and make new tokens: kore token add NAME"),
            ) from exc
        return self._tokens

    def _save(self, tokens: Mapping[str, AccessToken]) -> None:
        data = {
            digest: {
                "name": token.name,
                "scopes": sorted(token.scopes),
                "created_at": token.created_at,
                **({"role": token.role} if token.role is not None else {}),
            }
            for digest, token in tokens.items()
        }
        write_atomic(self._path, json.dumps({"tokens": data}, indent=1) + "\n")


def _token(data: Mapping[str, object]) -> AccessToken:
    scopes = data["scopes"]
    if not isinstance(scopes, list) or not isinstance(data["created_at"], int | float):
        raise TypeError
    own_scopes = frozenset(scope for scope in SCOPES if scope in scopes)
    role = data.get("role")
    if role is not None and not isinstance(role, str):
        raise TypeError
    return AccessToken(str(data["name"]), own_scopes, float(data["created_at"]), role)


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()
