"""Strict JSON files: a single object, without duplicate keys, comments or invalid text."""

import json
import os
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from agent.errors import ConfigError
from agent.i18n import plural, t
from agent.security.files.safe_open import open_regular
from gateway.config.origin import printable

SIZE_LIMIT_BYTES = 1_000_000
DEPTH_LIMIT = 50


def read_object(path: Path, raw: bytes | None = None) -> dict[str, Any] | None:
    """Return the file's object; None if the file does not exist.

    Raises `ConfigError` in one sentence. `raw` is the file's content if already read.
    """
    text = read_text(path, raw)
    if text is None:
        return None
    try:
        content = parse(text)
    except json.JSONDecodeError as exc:
        raise ConfigError(
            t(
                "{path}: line {line}, column {column}: not valid JSON: {reason}",
                path=path,
                line=exc.lineno,
                column=exc.colno,
                reason=_plain(exc.msg),
            ),
            hint=t("strict JSON allows no comments and no trailing comma"),
        ) from None
    except ValueError as exc:
        raise ConfigError(t("{path}: not valid JSON: {reason}", path=path, reason=exc)) from None
    if not isinstance(content, dict):
        raise ConfigError(
            t("{path}: found {found}, expected an object", path=path, found=kind_of(content))
        )
    return content


def parse(text: str) -> Any:
    """Parse any JSON value. Raises `ValueError` with a reason that does not quote the text."""
    try:
        value = json.loads(text, object_pairs_hook=_unique, parse_constant=_refuse_constant)
        _check_text(value)
    except RecursionError:
        raise ValueError(t("nested too deeply for a configuration")) from None
    return value


def private(path: Path) -> bool:
    """Return whether only the owner may read the file; always true on systems without modes."""
    return os.name != "posix" or not stat.S_IMODE(path.stat().st_mode) & 0o077


def kind_of(value: Any) -> str:
    """Return the kind of a JSON value in words, without its content."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case str():
            if not value:
                return t("an empty string")
            return plural(len(value), "a string of {n} character", "a string of {n} characters")
        case int() | float():
            return t("a number")
        case list():
            return t("a list of {n}", n=len(value))
        case _:
            return t("an object")


def read_text(path: Path, raw: bytes | None = None) -> str | None:
    """Return a file's text; None if the file does not exist.

    Raises `ConfigError` in one sentence. `raw` is the file's content if already read.
    """
    if raw is None and (raw := _read(path)) is None:
        return None
    if len(raw) > SIZE_LIMIT_BYTES:
        raise ConfigError(
            t(
                "{path}: larger than the limit of {limit:,} bytes",
                path=path,
                limit=SIZE_LIMIT_BYTES,
            )
        )
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as exc:
        line = raw.count(b"\n", 0, exc.start) + 1
        raise ConfigError(
            t(
                "{path}: line {line}: byte 0x{byte:02x} is not valid UTF-8; save it as UTF-8",
                path=path,
                line=line,
                byte=raw[exc.start],
            )
        ) from None


def _read(path: Path) -> bytes | None:
    """Read at most one byte more than the size limit of a configuration."""
    try:
        mode = path.stat().st_mode
        if stat.S_ISDIR(mode):
            raise ConfigError(t("{path}: found a folder, expected a JSON file", path=path))
        if not stat.S_ISREG(mode):
            raise ConfigError(t("{path}: not a regular file, expected a JSON file", path=path))
        with open_regular(path) as file:
            return file.read(SIZE_LIMIT_BYTES + 1)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except ValueError:
        name = printable(str(path))
        raise ConfigError(t("{named!r} is not a valid file name", named=name)) from None
    except PermissionError:
        raise ConfigError(
            t("{path}: permission denied; it must belong to the user who runs kore", path=path)
        ) from None
    except OSError as exc:
        raise ConfigError(
            t("{path}: cannot be read: {reason}", path=path, reason=exc.strerror)
        ) from None


def _unique(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    members: dict[str, Any] = {}
    for key, value in pairs:
        if key in members:
            raise ValueError(t('duplicate key "{key}"', key=printable(key)))
        members[key] = value
    return members


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(t("{name} is not JSON; write a number or null", name=name))


def _check_text(value: Any, depth: int = 0) -> None:
    """Reject strings that cannot be part of a file name or a request."""
    if depth > DEPTH_LIMIT:
        raise RecursionError
    match value:
        case str():
            if "\0" in value or any("\ud800" <= char <= "\udfff" for char in value):
                raise ValueError(
                    t("a string contains an invalid character (NUL or an unpaired surrogate)")
                )
        case list():
            for item in value:
                _check_text(item, depth + 1)
        case dict():
            for key, item in value.items():
                _check_text(key)
                _check_text(item, depth + 1)


def _plain(message: str) -> str:
    """Return the parser's message, which never quotes the file."""
    return message.removesuffix(":").replace("Expecting", "expected")
