"""Writing to config.json and secrets.json: whole files, so that no crash leaves half of one.

What is not changed stays, unknown keys and their order too; JSON has no comments to keep.
"""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from tempfile import mkstemp
from typing import Any

from agent.errors import ConfigError
from gateway.settings.document import kind_of, read_object
from gateway.settings.place import Key, dotted
from gateway.settings.references import read_secrets


def change_config(path: Path, changes: Mapping[Key, Any]) -> None:
    """Set keys of a configuration file, which is made when it is not there.

    Raises `ConfigError` for a file that is no JSON object, and one that cannot be written.
    """
    content = read_object(path) or {}
    for key, value in changes.items():
        if len(key) == 1:
            content[key[0]] = value
            continue
        section = content.setdefault(key[0], {})
        if not isinstance(section, dict):
            raise ConfigError(
                f"{path}: {dotted(key[:1])}: found {kind_of(section)}, expected an object"
            )
        section[key[1]] = value
    _write_json(path, content)


def keep_secrets(path: Path, more: Mapping[str, str | None]) -> None:
    """Set names in secrets.json; None takes one out. Raises `ConfigError`."""
    if not more:
        return
    held = {**read_secrets(path), **more}
    _write_json(path, {name: value for name, value in held.items() if value is not None})


def write_whole(path: Path, text: str) -> None:
    """Put a file in place of another, for its owner only (0600), or leave that as it is.

    A link stays one: what it leads to is replaced. Raises `OSError`.
    """
    path = path.resolve()
    descriptor, fresh = mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(fresh, path)
    except BaseException:
        os.unlink(fresh)
        raise


def _write_json(path: Path, content: Mapping[str, Any]) -> None:
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_whole(path, json.dumps(content, indent=2, ensure_ascii=False) + "\n")
    except OSError as exc:
        raise ConfigError(f"{path}: cannot be written: {exc.strerror}") from None
