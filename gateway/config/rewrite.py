"""Several keys of config.json, and several secrets, set in one go by a program that asked for them.

The rest of the file stays as it was written, unknown keys too, and no crash leaves half of one.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agent.errors import ConfigError
from gateway.config.atomic_write import file_lock, keep_secrets, write_atomic
from gateway.config.editing import content_of, text_of
from gateway.config.origin import Key
from gateway.config.references import read_secrets
from gateway.config.splice import set_value


def change_config(path: Path, changes: Mapping[Key, Any]) -> None:
    """Set keys of a configuration file, which is made when it is not there.

    Raises `ConfigError` for a file that is no JSON object, and one that cannot be written.
    """
    with file_lock(path):
        text = text_of(path)
        content_of(path, text)
        for key, value in changes.items():
            try:
                text = set_value(text, key, value)
            except ValueError as exc:
                raise ConfigError(f"{path}: {exc}") from None
        write_atomic(path, text)


def change_secrets(path: Path, changes: Mapping[str, str | None]) -> None:
    """Set names in secrets.json; None takes one out. Raises `ConfigError`."""
    with file_lock(path):
        keep_secrets(path, {name: text for name, text in changes.items() if text is not None})
        held = read_secrets(path)
        left = {name: text for name, text in held.items() if changes.get(name, text) is not None}
        if left != held:
            write_atomic(path, json.dumps(left, indent=2, ensure_ascii=False) + "\n")
