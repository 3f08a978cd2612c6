"""Encryption of stored texts with AES-256-GCM.

The repositories seal and open through their transaction, which names the column, the key of the row
and the columns that decide how the row is used. All of this is authenticated: a sealed text cannot
be opened in another place, or after the recipient of its row was changed.
"""

import hmac
import os
from base64 import b64decode, b64encode
from binascii import Error as NotBase64
from collections.abc import Mapping
from contextlib import suppress

from agent.records import frozen
from gateway.store.errors import EncryptionKeyError, catalogue_text

KEY_BYTES = 32
_NONCE_BYTES = 12
Value = str | int | bytes | None


@frozen
class Sealed:
    """Sealed columns of a table, and the columns that identify a row of it.

    `bound` columns are stored in plain text; the sealed texts open only with the values that these
    columns had when they were sealed. Every text is sealed, including empty texts, so a row with an
    unsealed text was not written by Kore. Only `optional` columns may have no text (NULL).
    """

    table: str
    key: tuple[str, ...]
    columns: tuple[str, ...]
    # Name of the table when its first texts were sealed. Texts are bound to it, so a renamed table
    # needs it to open them.
    first_name: str = ""
    bound: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()

    def place(self, column: str) -> str:
        """Return the name of this column that its texts are bound to, in addition to their row."""
        return f"{self.first_name or self.table}.{column}"

    @property
    def select(self) -> str:
        """Query for key, bound columns and sealed columns of every row, in this order."""
        columns = (*self.key, *self.bound, *self.columns)
        return f"SELECT {', '.join(columns)} FROM {self.table}"

    @property
    def update(self) -> str:
        """Statement that sets the sealed columns of the row with a key."""
        columns = ", ".join(f"{name} = ?" for name in self.columns)
        key = " AND ".join(f"{name} = ?" for name in self.key)
        return f"UPDATE {self.table} SET {columns} WHERE {key}"


# Destination of an outbox row or a question.
_ROUTE = ("lane", "channel", "account", "chat", "thread")

SEALED = (
    Sealed("message", ("session", "n"), ("content",)),
    Sealed(
        "session",
        ("id",),
        ("name", "memory", "file_views", "folder"),
        optional=("memory", "file_views", "folder"),
    ),
    Sealed("session", ("id",), ("taint",), bound=("principal", "permission_mode")),
    Sealed("transcript_line", ("session", "n", "i"), ("line",), "kept_line"),
    Sealed("inbox", ("channel", "account", "event_id"), ("payload",), bound=("lane", "principal")),
    Sealed("group_context", ("channel", "account", "event_id"), ("text",), "overheard"),
    Sealed("outbox", ("delivery_id", "part"), ("body",), bound=(*_ROUTE, "kind", "buttons")),
    Sealed("outbox", ("delivery_id", "part"), ("entities", "files"), bound=_ROUTE),
    Sealed(
        "approval",
        ("nonce",),
        ("question",),
        bound=(
            *("turn_id", "step", "args_hash", "grant_hash", "session", "asker", "principal"),
            *(*_ROUTE, "state", "answered_by"),
        ),
    ),
    Sealed(
        "permission_grant",
        ("principal", "session", "grant_hash"),
        ("title", "folder"),
        "standing",
        bound=("granted_by",),
    ),
    Sealed(
        "member", ("channel", "account", "sender"), ("name",), bound=("is_owner", "approved_by")
    ),
    Sealed("pairing", ("channel", "account", "sender"), ("name",), bound=("chat", "code_hash")),
    Sealed("summary", ("session", "upto"), ("content",), bound=("taint",)),
    Sealed("task", ("turn_id", "step"), ("definition", "title")),
    Sealed("task", ("turn_id", "step"), ("result",), bound=("taint",), optional=("result",)),
    Sealed("goal", ("session",), ("template", "remark"), bound=("principal",)),
    Sealed("job", ("made_by",), ("template",), bound=("principal", "kind")),
    Sealed("step", ("turn_id", "n"), ("args",)),
    Sealed("step", ("turn_id", "n"), ("result",), bound=("taint",), optional=("result",)),
    Sealed("file_change", ("step", "n"), ("entry",), "change"),
    Sealed("undo_operation", ("name",), ("plan", "report"), "undoing", optional=("report",)),
    Sealed("audit_outbox", ("id",), ("entry",), optional=("entry",)),
    Sealed(
        "api_answer",
        ("token", "id"),
        ("request", "answer", "conversation"),
        optional=("request", "answer", "conversation"),
    ),
)
# By `table.name`. A text sealed under another name would be lost at the next change of keys.
SEALED_COLUMNS = {f"{sealed.table}.{name}": sealed for sealed in SEALED for name in sealed.columns}


class Cipher:
    """Encryption with one key; `name` is the environment variable with the key."""

    def __init__(self, key: bytes, name: str) -> None:
        try:
            from cryptography.hazmat.primitives.ciphers.aead import AESGCM
        except ImportError as exc:
            raise EncryptionKeyError(
                "store.encryption_key_env is set, but the encryption library is not installed",
                hint="pip install 'kore-assistant[encryption]'",
            ) from exc
        self.name = name
        self._aead = AESGCM(key)
        self._key = key

    def seal(self, text: Value, *place: Value) -> str | None:
        """Return the base64 of a random nonce, the sealed text and its tag; None stays None."""
        if text is None:
            return None
        nonce = os.urandom(_NONCE_BYTES)
        data = str(text).encode("utf-8", "surrogatepass")
        return b64encode(nonce + self._aead.encrypt(nonce, data, _bound(place))).decode()

    def unseal(self, sealed: Value, *place: Value) -> str | None:
        """Return the text. Raises `ValueError` for another key, another place or a changed text."""
        if sealed is None:
            return None
        from cryptography.exceptions import InvalidTag

        data = b64decode(str(sealed), validate=True)
        try:
            text = self._aead.decrypt(data[:_NONCE_BYTES], data[_NONCE_BYTES:], _bound(place))
        except InvalidTag:
            raise ValueError("this was not sealed here with this key") from None
        return text.decode("utf-8", "surrogatepass")

    def seal_bytes(self, data: bytes, place: str) -> bytes:
        """Seal the bytes of a file, like `seal`."""
        nonce = os.urandom(_NONCE_BYTES)
        return nonce + self._aead.encrypt(nonce, data, _bound((place,)))

    def unseal_bytes(self, sealed: bytes, place: str) -> bytes:
        """Return the bytes of a file, like `unseal`. Raises `ValueError`."""
        from cryptography.exceptions import InvalidTag

        try:
            return self._aead.decrypt(
                sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], _bound((place,))
            )
        except InvalidTag:
            raise ValueError("this was not sealed here with this key") from None

    def derived(self, purpose: str) -> bytes:
        """Return a key for another purpose that reveals nothing about this one."""
        return hmac.digest(self._key, purpose.encode(), "sha256")


def cipher_of(
    name: str | None, environ: Mapping[str, str], named_by: str = "store.encryption_key_env"
) -> Cipher | None:
    """Return the cipher with the key in the variable `name`: 32 bytes, in base64 or hexadecimal.

    Raises `EncryptionKeyError`, which never shows the value; `named_by` is the setting or flag that
    refers to the variable.
    """
    if name is None:
        return None
    hint = catalogue_text(
        '`export {name}="$(openssl rand -base64 32)"` creates one. Keep it: without the key,'
        " messages cannot be read."
    )
    text = environ.get(name, "").strip()
    if not text:
        raise EncryptionKeyError(
            "{named_by} refers to {name}, which is not set", named_by=named_by, name=name, hint=hint
        )
    key = _decoded(text)
    if key is None or len(key) != KEY_BYTES:
        raise EncryptionKeyError(
            "{named_by}: {name} is not a valid key; expected {key_bytes} bytes in base64 or"
            " hexadecimal",
            named_by=named_by,
            name=name,
            key_bytes=KEY_BYTES,
            hint=hint,
        )
    return Cipher(key, name)


def _bound(place: tuple[Value, ...]) -> bytes:
    """Encode a place so that no two places have the same bytes."""
    return "".join(map(_word, place)).encode("utf-8", "surrogatepass")


def _word(value: Value) -> str:
    """Encode a value as both engines return it: flags are numbers there."""
    if value is None:
        return "-"
    if isinstance(value, bytes):
        text = value.hex()
    else:
        text = str(int(value) if isinstance(value, bool) else value)
    return f"{len(text)}:{text}"


def _decoded(text: str) -> bytes | None:
    if len(text) == 2 * KEY_BYTES:
        with suppress(ValueError):
            return bytes.fromhex(text)
    for alphabet in (b"+/", b"-_"):
        with suppress(NotBase64, ValueError):
            return b64decode(text + "=" * (-len(text) % 4), alphabet, validate=True)
    return None
