"""Edits of configuration files: resulting content and validation."""

import json
from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import Any

from pydantic import SecretStr

from agent.errors import ConfigError
from agent.i18n import t
from agent.records import frozen
from gateway.config.atomic_write import drop_secrets, file_lock, keep_secrets, write_atomic
from gateway.config.json_files.document import parse, read_text
from gateway.config.json_files.jsonc import find, read, remove_value, set_value
from gateway.config.key_catalog import (
    catalogue,
    guess,
    guess_section,
    leaf_types,
    names_in_package,
    whole_sections,
)
from gateway.config.layers import parse_for
from gateway.config.load import Sources
from gateway.config.origin import Key, printable
from gateway.config.references import has_reference, read_secrets
from gateway.config.schema import Settings
from gateway.config.secret_keys import extract_secret, is_secret, name_of, orphans

Path_ = tuple[str, ...]

EMPTY = "{}\n"


@frozen
class ConfigEdit:
    """New content of a file; `secrets` are written to secrets.json.

    `earlier_complaints` existed before the edit.
    """

    file: Path
    text: str
    secrets: Mapping[str, str] = field(default_factory=dict)
    earlier_complaints: tuple[str, ...] = ()

    def write(self, sources: Sources) -> None:
        """Write the secrets, then the file.

        In this order, the file never refers to a missing secret. The secrets are removed again if
        the file cannot be written.
        """
        is_changed = self.text != (read_text(self.file) or "")
        before = read_secrets(sources.secrets_file) if self.secrets else {}
        keep_secrets(sources.secrets_file, self.secrets)
        if not is_changed:
            return
        try:
            write_atomic(self.file, self.text)
        except ConfigError:
            drop_secrets(sources.secrets_file, self.secrets.keys() - before)
            changed = self.secrets.keys() & before
            keep_secrets(sources.secrets_file, {name: before[name] for name in changed})
            raise


def path_of(key: str, content: Any, *, ours: bool) -> Path_:
    """Parse `model_list.local.api_base` into keys and numbers; list entries may be named.

    In Kore's own files, the section and the key must exist. Raises `ConfigError`.
    """
    path = tuple(key.split("."))
    if ours:
        _check_known(path)
    for n, part in enumerate(path):
        if isinstance(content, list) and not part.isdecimal():
            names = [_name(item) for item in content]
            if part not in names:
                entry_names = tuple(filter(None, names))
                more = guess(part, entry_names) if entry_names else ""
                where = ".".join(path[:n])
                raise ConfigError(
                    t(
                        '{where}: no entry named "{name}"{more}',
                        where=where,
                        name=printable(part),
                        more=more,
                    )
                )
            path = (*path[:n], str(names.index(part)), *path[n + 1 :])
        content = _inside(content, path[n])
    return path


def text_of(file: Path) -> str:
    """Return a file's text; an absent file is an empty object. Raises `ConfigError`."""
    text = read_text(file)
    return EMPTY if text is None or not text.strip() else text


def content_of(file: Path, text: str) -> Any:
    """Parse a file's text; raises `ConfigError` for invalid JSON."""
    try:
        return read(text).value
    except ValueError as exc:
        raise ConfigError(
            f"{file}: {exc}", hint=t("`kore config edit` opens it in an editor")
        ) from None


def parse_argument(path: Path_, text: str) -> Any:
    """Parse a command-line argument for a key: as JSON unless it is plain text.

    Raises `ConfigError`.
    """
    if is_secret(path) and text != "null" and text[:1] not in ("[", "{", '"'):
        return text
    is_key = len(path) == 2 and path[1] in catalogue().get(path[0], ())
    if is_key or (len(path) == 3 and path[2] in names_in_package(path)):
        if leaf_types(path) <= {Path, SecretStr}:
            return text
        try:
            return parse_for(path, text)
        except ValueError as exc:
            raise ConfigError(f"{'.'.join(path)}: {exc}") from None
    try:
        return parse(text)
    except ValueError:
        if text[:1] in '{["':
            message = t("{path}: the value is not valid JSON", path=".".join(path))
            raise ConfigError(message) from None
        return text


def setting(sources: Sources, file: Path, path: Path_, value: Any) -> ConfigEdit:
    """Return the edit that sets a value, with its secrets separated. Raises `ConfigError`."""
    text = text_of(file)
    content = content_of(file, text)
    entry_name = _entry_name(content, path)
    old = find(read(text), path)
    secrets = read_secrets(sources.secrets_file)
    stored, apart = extract_secret(path, value, entry_name)
    reference = old.value if old is not None and isinstance(old.value, str) else ""
    if (
        len(apart) == 1
        and stored == f"${{{name_of(path, entry_name)}}}"
        and has_reference(reference)
    ):
        # A stored secret keeps its name.
        name = reference.removeprefix("${").removesuffix("}")
        if name in secrets:
            stored, apart = reference, {name: next(iter(apart.values()))}
    try:
        return validate(sources, ConfigEdit(file, set_value(text, path, stored), apart))
    except ValueError as exc:
        raise ConfigError(f"{file}: {exc}") from None


def unsetting(sources: Sources, file: Path, path: Path_) -> ConfigEdit:
    """Return the edit that removes a path from one of Kore's own files. Raises `ConfigError`."""
    return validate(sources, ConfigEdit(file, without(file, path)))


def drop_orphans(sources: Sources, file: Path, before: str) -> list[str]:
    """Remove the secrets of a removed key and return their names.

    `before` is the earlier text of the file. Secrets that any possible configuration file refers to
    are not removed.
    """
    files = {file, draft_path(file), sources.home / "config.json", *sources.watched_files}
    files.discard(sources.secrets_file)
    try:
        texts = [read_text(path) or "" for path in files]
    except ConfigError:  # an unreadable file may refer to any of them
        return []
    removed = orphans(read_secrets(sources.secrets_file), before, texts)
    drop_secrets(sources.secrets_file, removed)
    return removed


def draft_path(file: Path) -> Path:
    """Return the file for an edit that is not valid."""
    return file.with_name(f"{file.stem}.edit{file.suffix}")


def without(file: Path, path: Path_) -> str:
    """Return a file's text without the value at a path. Raises `ConfigError`."""
    text = text_of(file)
    content_of(file, text)
    try:
        return remove_value(text, path)
    except KeyError:
        message = t("{file}: {path} is not set there", file=file, path=".".join(path))
        raise ConfigError(message) from None


def rewriting(sources: Sources, file: Path, text: str) -> ConfigEdit:
    """Return the edit that replaces the text of one of Kore's own files. Raises `ConfigError`."""
    return validate(sources, ConfigEdit(file, text), strict=True)


def validate(sources: Sources, change: ConfigEdit, *, strict: bool = False) -> ConfigEdit:
    """Return the change if it introduces no new error. Raises `ConfigError`."""
    content = _object(change)
    at = Sources(change.file, sources.home, sources.cwd, sources.environ)
    before = set() if strict else set(at.complaints() if change.file.exists() else ())
    after = at.complaints({change.file: content, sources.secrets_file: change.secrets})
    if new_complaints := [line for line in after if line not in before]:
        raise ConfigError(
            "\n".join(new_complaints), hint=t("{file} was not changed", file=change.file)
        )
    return ConfigEdit(change.file, change.text, change.secrets, tuple(after))


def _object(change: ConfigEdit) -> dict[str, Any]:
    """Parse the content as strict JSON, so that comments are refused here, too."""
    try:
        content = parse(change.text.lstrip("\ufeff"))
    except ValueError as exc:
        message = t("{path}: not valid JSON: {reason}", path=change.file, reason=exc)
        raise ConfigError(message) from None
    if not isinstance(content, dict):
        raise ConfigError(
            t("{file}: expected an object that contains the sections", file=change.file)
        )
    return content


def _check_known(path: Path_) -> None:
    sections = tuple(Settings.model_fields)
    if path[0] not in sections:
        message = t("unknown section{guess}", guess=guess_section(path[0], sections))
        raise ConfigError(f"{printable(path[0])}: {message}")
    if path[0] in whole_sections():
        names = names_in_package(path)
        if names and path[2] not in names:
            message = t("unknown key{guess}", guess=guess(path[2], names))
            raise ConfigError(f"{'.'.join(path[:2])}.{printable(path[2])}: {message}")
        return
    keys = catalogue()[path[0]]
    if len(path) == 1:
        message = t("{section}: which key? one of {keys}", section=path[0], keys=", ".join(keys))
        raise ConfigError(message)
    if path[1] not in keys:
        message = t("unknown key{guess}", guess=guess(path[1], keys))
        raise ConfigError(f"{path[0]}.{printable(path[1])}: {message}")


def _entry_name(content: Any, path: Path_) -> str:
    """Return the own name of the first list entry on this path."""
    for part in path:
        if isinstance(content, list):
            return _name(_inside(content, part))
        content = _inside(content, part)
    return ""


def inside(content: Any, path: Path_) -> Any:
    """Return the value at a path, or None."""
    for part in path:
        content = _inside(content, part)
    return content


def _inside(content: Any, part: str) -> Any:
    if isinstance(content, dict):
        return content.get(part)
    if isinstance(content, list) and part.isdecimal() and int(part) < len(content):
        return content[int(part)]
    return None


def _name(entry: Any) -> str:
    if not isinstance(entry, dict):
        return ""
    return str(entry.get("model_name") or entry.get("name") or "")


def change_config(path: Path, changes: Mapping[Key, Any]) -> None:
    """Set keys of a configuration file, which is created if absent.

    Raises `ConfigError` if the file is not a JSON object or cannot be written.
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
    """Set names in secrets.json; None removes a name. Raises `ConfigError`."""
    with file_lock(path):
        keep_secrets(path, {name: text for name, text in changes.items() if text is not None})
        secrets = read_secrets(path)
        remaining = {
            name: text for name, text in secrets.items() if changes.get(name, text) is not None
        }
        if remaining != secrets:
            write_atomic(path, json.dumps(remaining, indent=2, ensure_ascii=False) + "\n")
