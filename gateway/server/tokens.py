"""Access tokens of the server: names, scopes, and their keys.

The secret of a token is 32 random bytes; its key is the SHA-256 of the secret. The file contains
only keys. A browser has a key without a secret, which is revoked with the token that admitted it.
"""

import json
import re
import secrets
import time
from collections.abc import Iterable, Mapping
from pathlib import Path

from agent.errors import ConfigError, KoreError
from agent.i18n import t
from agent.records import frozen
from agent.security.key_proof import key_id, key_of
from gateway.config.atomic_write import file_lock, write_atomic
from gateway.control.declaration import SCOPES, CallScope

_PREFIX = "kore_"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_MAX_TOKENS = 200
BROWSER_PREFIX = "browser-"
# Parent of a browser that a person on this machine admitted with `kore web`.
OWNER = ""
# Limit per parent. Browsers do not count against the limit of tokens or of another parent.
MAX_BROWSERS = 10
BROWSER_LIFETIME_S = 30 * 24 * 3600.0


@frozen
class AccessToken:
    """Access token and its permissions. `created_at` is Unix time in seconds.

    A token with a `role` does not represent the owner but a separate person (`api:NAME`), who may
    only talk to Kore over the OpenAI-compatible API. A browser's token has a `parent`, the name of
    the token that admitted it or `OWNER`, and is valid only at the `host` (`NAME:PORT`) of the
    page.
    """

    name: str
    scopes: frozenset[CallScope]
    created_at: float
    role: str | None = None
    parent: str | None = None
    host: str | None = None

    @property
    def expires_at(self) -> float | None:
        """Expiry in Unix time; None for a token that is valid until revoked."""
        return None if self.parent is None else self.created_at + BROWSER_LIFETIME_S

    @property
    def identity(self) -> str:
        """Identifier that differs from a later token of the same name."""
        return f"{self.name}@{self.created_at}"

    def allows(self, scope: CallScope) -> bool:
        """Return whether the token has a scope.

        `admin` includes all scopes, and every scope includes `read`. A token with a role has only
        `chat`.
        """
        if self.role is not None:
            return scope == "chat"
        return scope in self.scopes or "admin" in self.scopes or scope == "read"


class TokenFile:
    """Token file that only its owner can read.

    Changes by another process take effect at the next access.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._stamp: tuple[int, int, int] | None = None
        self._tokens: dict[str, AccessToken] = {}
        self._keys: dict[str, str] = {}

    def list(self) -> tuple[AccessToken, ...]:
        return tuple(token for token in self._load().values() if not _is_over(token))

    def add(self, name: str, scopes: Iterable[CallScope], role: str | None = None) -> str:
        """Add a token and return its secret, which is not stored. Raises `KoreError`."""
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
        if name.startswith(BROWSER_PREFIX):
            raise KoreError(
                t("names that begin with {prefix} are for browsers", prefix=BROWSER_PREFIX)
            )
        secret = _PREFIX + secrets.token_urlsafe(32)
        with file_lock(self._path):
            tokens = self._load()
            if any(token.name == name for token in tokens.values()):
                raise KoreError(
                    t("there is a token {name} already", name=name),
                    hint=t("`kore token revoke {name}` removes it", name=name),
                )
            if sum(token.parent is None for token in tokens.values()) >= _MAX_TOKENS:
                raise KoreError(
                    t("there are {count} tokens, the most there can be", count=_MAX_TOKENS)
                )
            token = AccessToken(name, scopes, time.time(), role)
            self._save({**tokens, key_of(secret).hex(): token})
        return secret

    def add_browser(self, key: bytes, parent: AccessToken | None, host: str) -> AccessToken:
        """Store the key of a browser that `parent` (None: the owner) admitted at `host`.

        Over the limit, the oldest browser of the same parent is removed. Raises `KoreError` if the
        parent has been revoked in the meantime.
        """
        name = f"{BROWSER_PREFIX}{secrets.token_hex(4)}"
        with file_lock(self._path):
            tokens = {key: token for key, token in self._load().items() if not _is_over(token)}
            if parent is not None and parent not in tokens.values():
                raise KoreError(t("no token {name}", name=parent.name))
            scopes = frozenset[CallScope](["admin"]) if parent is None else parent.scopes
            parent_name = OWNER if parent is None else parent.name
            browser = AccessToken(name, scopes, time.time(), None, parent_name, host)
            siblings = [key for key, token in tokens.items() if token.parent == parent_name]
            for oldest in siblings[: max(0, len(siblings) + 1 - MAX_BROWSERS)]:
                del tokens[oldest]
            self._save({**tokens, key.hex(): browser})
        return browser

    def revoke(self, name: str) -> None:
        """Revoke a token and the browsers that it admitted.

        Raises `KoreError` if no token has this name.
        """
        with file_lock(self._path):
            tokens = self._load()
            if all(token.name != name for token in tokens.values()):
                raise KoreError(
                    t("no token {name}", name=name), hint=t("`kore token list` shows them")
                )
            self._save(
                {
                    key: token
                    for key, token in tokens.items()
                    if token.name != name and token.parent != name
                }
            )

    def find(self, secret: str) -> AccessToken | None:
        """Return the token with this secret."""
        token = self._load().get(key_of(secret).hex())
        return None if token is None or _is_over(token) else token

    def find_key(self, id_: str) -> tuple[bytes, AccessToken] | None:
        """Return the key with this id, and its token."""
        tokens = self._load()
        key = self._keys.get(id_)
        if key is None or _is_over(tokens[key]):
            return None
        return bytes.fromhex(key), tokens[key]

    def role_of(self, name: str) -> str | None:
        """Return the role of the token with this name.

        Returns None for a token without a role or a revoked one, and always while the file is
        invalid.
        """
        try:
            return next((token.role for token in self.list() if token.name == name), None)
        except ConfigError:
            # The server reports this error to every client.
            return None

    def _load(self) -> dict[str, AccessToken]:
        """Return the tokens by key. Raises `ConfigError` for an invalid file."""
        try:
            info = self._path.stat()
            stamp = (info.st_mtime_ns, info.st_size, info.st_ino)
            if stamp != self._stamp:
                data = json.loads(self._path.read_bytes())
                tokens = {key: _token(entry) for key, entry in data["tokens"].items()}
                self._tokens = {
                    key: token for key, token in tokens.items() if not _is_of_old_login(token)
                }
                self._keys = {key_id(bytes.fromhex(key)): key for key in self._tokens}
                self._stamp = stamp
        except FileNotFoundError:
            self._stamp, self._tokens, self._keys = None, {}, {}
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as exc:
            raise ConfigError(
                t("{path}: cannot be read as a file of tokens", path=self._path),
                hint=t("delete it and make new tokens: kore token add NAME"),
            ) from exc
        return self._tokens

    def _save(self, tokens: Mapping[str, AccessToken]) -> None:
        data = {
            key: {
                "name": token.name,
                "scopes": sorted(token.scopes),
                "created_at": token.created_at,
                **({"role": token.role} if token.role is not None else {}),
                **({"parent": token.parent} if token.parent is not None else {}),
                **({"host": token.host} if token.host is not None else {}),
            }
            for key, token in tokens.items()
        }
        write_atomic(self._path, json.dumps({"tokens": data}, indent=1) + "\n")


def _token(data: Mapping[str, object]) -> AccessToken:
    scopes = data["scopes"]
    if not isinstance(scopes, list) or not isinstance(data["created_at"], int | float):
        raise TypeError
    own_scopes = frozenset(scope for scope in SCOPES if scope in scopes)
    created_at = float(data["created_at"])
    role, parent, host = (_optional_text(data.get(key)) for key in ("role", "parent", "host"))
    return AccessToken(str(data["name"]), own_scopes, created_at, role, parent, host)


def _optional_text(value: object) -> str | None:
    if not isinstance(value, str | None):
        raise TypeError
    return value


def _is_over(token: AccessToken) -> bool:
    return token.expires_at is not None and token.expires_at < time.time()


def _is_of_old_login(token: AccessToken) -> bool:
    """Return whether an earlier version gave this token to a browser or to local programs.

    These programs sent their secrets to any server at the address.
    """
    is_browsers = token.name.startswith(BROWSER_PREFIX) and token.parent is None
    return is_browsers or token.name == "local-programs"
