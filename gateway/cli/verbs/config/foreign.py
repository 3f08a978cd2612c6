"""Command `kore config import`, and changes to files of other programs."""

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agent.errors import ConfigError, KoreError
from agent.i18n import t
from gateway.cli.output import clean, print_json
from gateway.config import editing
from gateway.config.atomic_write import file_lock, write_atomic
from gateway.config.editing import ConfigEdit
from gateway.config.folder_trust import read_trusted
from gateway.config.foreign.formats import read_foreign
from gateway.config.json_files.jsonc import set_value
from gateway.config.load import Sources, foreign_files, project_files
from gateway.config.origin import Key
from gateway.config.schema import Settings
from gateway.config.secret_keys import extract_secret, is_secret, masked

_POINTERS = {"agent.model": "main", "profiles.default": "main", "profiles.task": "task"}
_POINTERS |= {"profiles.reasoning": "reasoning", "profiles.quick": "quick"}
_NAMES = {"main": "defaultModel"}


def import_foreign(args: argparse.Namespace, sources: Sources) -> int:
    """Copy the settings of other programs into our own file; their files are unchanged."""
    chosen_file = Path.cwd() / args.file.expanduser() if args.file else None
    files = {chosen_file: None} if chosen_file else _foreign_files(sources)
    if not files:
        raise KoreError(
            t("no configuration of another program found"),
            hint=t("name a file: kore config import FILE"),
        )
    file, imported, notes = sources.own_file, [], []
    with file_lock(file):
        text = editing.text_of(file)
        secrets: dict[str, str] = {}
        for path, raw in files.items():
            try:
                theirs = read_foreign(path, raw)
            except ValueError as exc:
                raise ConfigError(f"{path}: {exc}") from None
            if theirs is None:
                raise KoreError(t("{path}: no such file", path=path))
            notes += [f"{path}: {line}" for line in theirs.notes]
            content = editing.content_of(file, text)
            for key, value in theirs.values.items():
                addition = _merge(_present(content, key), value)
                if addition is None:
                    notes.append(t("{where}: already set", where=f"{path}: {'.'.join(key)}"))
                    continue
                stored, new_secrets = extract_secret(key, addition)
                text, secrets = set_value(text, key, stored), {**secrets, **new_secrets}
                imported.append(t("{key} from {path}", key=".".join(key), path=path))
        change = editing.validate(sources, ConfigEdit(file, text, secrets))
        change.write(sources)
    if args.json:
        print_json({"file": str(file), "taken": imported, "left": notes, "secrets": list(secrets)})
        return 0
    for line in imported:
        print(t("imported: {what}", what=clean(line)))
    if secrets:
        print(t("saved in {path}: {names}", path=sources.secrets_file, names=", ".join(secrets)))
    for line in notes:
        print(t("not imported: {what}", what=clean(line)))
    return 0


def set_in_foreign_file(args: argparse.Namespace, file: Path, text: str | None) -> int:
    """Change a value in a foreign file, by its own key or by an equivalent key of ours.

    None removes the value. Order, comments and unknown keys are preserved.
    """
    with file_lock(file):
        content = editing.content_of(file, editing.text_of(file))
        key = _their_key(args.key, content) if file.name == ".kode.json" else args.key
        path = editing.path_of(key, content, ours=False)
        if path[0] in Settings.model_fields and path[0] not in content:
            raise ConfigError(t("{file} cannot store {key}", file=file, key=args.key))
        if text is None:
            new_text = editing.without(file, path)
        else:
            value = editing.parse_argument(path, text)
            if key != args.key:
                value = _their_name(text, content)
            try:
                new_text = set_value(editing.text_of(file), path, value)
            except ValueError as exc:
                raise ConfigError(f"{file}: {exc}") from None
        write_atomic(file, new_text)
    value_shown = t("a secret") if is_secret(path) else text
    if text is not None and "mcpServers" in path:
        value_shown = str(editing.inside(masked(editing.content_of(file, new_text)), path))
    if args.json:
        print_json({"file": str(file), "key": ".".join(path)})
    else:
        what = t("is removed") if text is None else f"= {clean(str(value_shown))}"
        print(f"{file}: {'.'.join(path)} {what}")
    return 0


def _foreign_files(sources: Sources) -> dict[Path, bytes | None]:
    """Return the files that are read live, with the content of project files.

    These are the owner's own files and the trusted files of this folder. The content is the version
    that was checked for trust.
    """
    projects = project_files(sources.cwd, sources.environ)
    contents: dict[Path, bytes | None] = {}
    for path in foreign_files(sources.home, sources.cwd, sources.environ):
        raw = read_trusted(path, sources.home) if path in projects else None
        if path.is_file() and (path not in projects or raw is not None):
            contents[path] = raw
    return contents


def _present(content: Any, key: Key) -> Any:
    for part in key:
        content = content.get(part) if isinstance(content, dict) else None
    return content


def _merge(present: Any, theirs: Any) -> Any:
    """Merge lists of models and maps of servers; existing values take precedence.

    Returns None if nothing changes.
    """
    if isinstance(present, list) and isinstance(theirs, list):
        names = {item.get("model_name") for item in present if isinstance(item, dict)}
        additions = [their for their in theirs if their["model_name"] not in names]
        return [*present, *additions] if additions else None
    if isinstance(present, dict) and isinstance(theirs, dict):
        members = {name: value for name, value in theirs.items() if name not in present}
        return {**present, **members} if members else None
    return theirs if present is None else None


def _their_key(key: str, content: Mapping[str, Any]) -> str:
    pointer = _POINTERS.get(key)
    if pointer is None:
        return key
    if "modelPointers" in content or isinstance(content.get("modelProfiles"), list):
        return f"modelPointers.{pointer}"
    return _NAMES.get(pointer, f"{pointer}Model")


def _their_name(name: str, content: Mapping[str, Any]) -> str:
    """Return a model's name in their file: its profile's name in one format, its own name in the
    other.
    """
    profiles = content.get("modelProfiles") or {}
    if isinstance(profiles, dict):
        names_by_key = {str(profile): str(profile) for profile in profiles}
    else:
        profile_list = [profile for profile in profiles if isinstance(profile, dict)]
        names_by_key = {
            str(item.get("modelName")): str(item.get("modelName")) for item in profile_list
        }
        names_by_key = {
            **{str(item.get("name")): str(item.get("modelName")) for item in profile_list},
            **names_by_key,
        }
    if name not in names_by_key:
        names = ", ".join(names_by_key) or "none"
        raise ConfigError(
            t("no model named {name!r} there; available: {names}", name=name, names=names)
        )
    return names_by_key[name]
