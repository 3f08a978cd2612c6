"""Remote editor of settings: lists, checks and changes individual keys.

A change is checked first and written only as checked: if the file has changed in between, nothing
is written. Changes that widen Kore's permissions must be confirmed.
"""

import asyncio
import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import SecretStr

from agent.errors import ConfigError
from agent.i18n import t
from agent.records import frozen
from agent.security.redaction import MARK, Redactor
from gateway.config import Settings, editing
from gateway.config.atomic_write import file_lock
from gateway.config.diff import update
from gateway.config.editing import ConfigEdit, inside
from gateway.config.foreign.formats import is_foreign
from gateway.config.key_catalog import (
    choices,
    is_at_once,
    key_of,
    keys_in,
    leaf_types,
    origin_of,
    widens_access,
)
from gateway.config.layers import EnvironmentLayer
from gateway.config.load import Sources
from gateway.config.origin import Key, printable
from gateway.config.references import References, has_reference
from gateway.config.secret_keys import STARS, is_secret, masked
from gateway.ops.config_check import check_usable
from gateway.ops.config_reload import ConfigReloader
from gateway.runtime.secrets import describe, redactor_of

_MAX_VALUE_CHARS = 200_000


@frozen
class CheckedChange:
    """Valid change: the current file, the edit, and the facts to show."""

    before: str
    edit: ConfigEdit
    facts: Mapping[str, Any]


class ConfigEditor:
    """Editor of the configuration, which it reads at every call.

    `settings` are used by this process, unless its `reloader` has newer ones.
    """

    def __init__(
        self,
        sources: Sources,
        settings: Settings,
        redactor: Redactor,
        reloader: ConfigReloader | None,
    ) -> None:
        self._sources = sources
        self._current = settings if reloader is None else reloader.settings
        self._redactor = redactor
        self._reloader = reloader

    @property
    def file(self) -> Path:
        return self._sources.own_file

    def list_settings(self) -> Mapping[str, Any]:
        """List every key with its value, its origin and how it can be changed.

        With an invalid file, list the settings in use, and the `problem`. Blocks.
        """
        problem = ""
        try:
            settings = self._sources.load()
        except ConfigError as exc:
            settings, problem = self._current, str(exc)
        content = self._content()
        locked = self._locked_keys()
        values = describe(settings)
        rows = [self._row(path, values, settings, content, locked) for path in keys_in(settings)]
        return {"file": str(self.file), "problem": self._redactor.clean(problem), "settings": rows}

    def check(self, key: str, value: str | None) -> Mapping[str, Any]:
        """Describe the effect of a change; None removes the key from the file.

        Raises `ConfigError` for an invalid change. Blocks.
        """
        return self._check(key, value).facts

    async def change(
        self, key: str, value: str | None, proposal: str, *, is_confirmed: bool
    ) -> Mapping[str, Any]:
        """Write a change if it equals the checked one, and reload.

        Raises `ConfigError` when nothing was written.
        """
        facts = await asyncio.to_thread(self._write, key, value, proposal, is_confirmed)
        if self._reloader is None:
            return facts
        try:
            await self._reloader.reload()
        except ConfigError as exc:
            note = t("saved, but Kore keeps using the previous settings: {reason}", reason=exc)
            return {**facts, "effect": "none", "notes": [*facts["notes"], note]}
        return facts

    def _write(
        self, key: str, value: str | None, proposal: str, is_confirmed: bool
    ) -> Mapping[str, Any]:
        with file_lock(self.file):
            checked = self._check(key, value)
            if checked.facts["proposal"] != proposal:
                raise ConfigError(
                    t("{name} was changed meanwhile", name=self.file),
                    hint=t("check your change again"),
                )
            if checked.facts["widens"] and not is_confirmed:
                raise ConfigError(
                    t("{key} changes what Kore may do; confirm it", key=printable(key)),
                    hint=t("{file} was not changed", file=self.file),
                )
            checked.edit.write(self._sources)
            if value is None:
                # Removed last, so that the file never refers to a missing secret.
                editing.drop_orphans(self._sources, self.file, checked.before)
        return checked.facts

    def _check(self, key: str, value: str | None) -> CheckedChange:
        if is_foreign(self.file):
            raise ConfigError(
                t("{file} is another program's file", file=self.file),
                hint=t("change it with `kore config set`"),
            )
        if value is not None and len(value) > _MAX_VALUE_CHARS:
            raise ConfigError(t("{key}: the value is too long", key=printable(key)))
        before = editing.text_of(self.file)
        path = editing.path_of(key, editing.content_of(self.file, before), ours=True)
        self._refuse_locked(path)
        edit = self._edit(path, value)
        settings = self._usable(edit)
        facts = {
            "key": ".".join(path),
            "file": str(self.file),
            "old": self._visible_value(path, self._settings_now(), before),
            "new": self._visible_value(path, settings, edit.text),
            "widens": widens_access(path),
            "effect": self._effect(path, settings),
            "secrets": list(edit.secrets),
            "notes": self._notes(path, edit.text, settings),
            "proposal": _digest(before, key, value),
        }
        return CheckedChange(before, edit, facts)

    def _edit(self, path: tuple[str, ...], value: str | None) -> ConfigEdit:
        if value is None:
            return editing.unsetting(self._sources, self.file, path)
        if STARS in value or MARK in value:
            raise ConfigError(
                t("{key}: the stars stand for a secret", key=".".join(path)),
                hint=t("set the secret by its own key, such as model_list.NAME.api_key"),
            )
        parsed = editing.parse_argument(path, value)
        return editing.setting(self._sources, self.file, path, parsed)

    def _usable(self, edit: ConfigEdit) -> Settings:
        """Return the settings with the change.

        Raises `ConfigError` when they are unusable but the current ones are not.
        """
        content = editing.content_of(edit.file, edit.text)
        drafts = {edit.file: content, self._sources.secrets_file: edit.secrets}
        try:
            settings = self._sources.load(drafts)
        except ConfigError:
            # The file was invalid before; `validate` has ensured that the change adds no error.
            return self._current
        try:
            check_usable(settings, os.environ)
        except ConfigError as exc:
            if self._is_usable_now():
                raise ConfigError(
                    str(exc), hint=t("{file} was not changed", file=self.file)
                ) from None
        return settings

    def _is_usable_now(self) -> bool:
        try:
            check_usable(self._sources.load(), os.environ)
        except ConfigError:
            return False
        return True

    def _settings_now(self) -> Settings:
        try:
            return self._sources.load()
        except ConfigError:
            return self._current

    def _visible_value(self, path: tuple[str, ...], settings: Settings, text: str) -> Any:
        """Return the value in effect at a path, without secrets.

        A reference is returned as in the file's `text`, because it may point to any variable.
        """
        own = inside(editing.content_of(self.file, text), path)
        is_reference = own is not None and has_reference(own)
        value = masked(own, path) if is_reference else inside(describe(settings), path)
        clean = redactor_of(settings, os.environ).clean_data({"value": value})
        return self._redactor.clean_data(clean)["value"]

    def _effect(self, path: tuple[str, ...], settings: Settings) -> str:
        """Return when the change takes effect: "now", after a "restart", or "none"."""
        diff, name = update(self._current, settings), ".".join(key_of(path))
        if _concerns(name, diff.restart_keys):
            return "restart"
        if not _concerns(name, diff.changed_keys):
            return "none"
        return "now" if self._reloader is not None else "restart"

    def _notes(self, path: tuple[str, ...], text: str, settings: Settings) -> list[str]:
        own = inside(editing.content_of(self.file, text), path)
        place = origin_of(settings, key_of(path))
        if own is None or has_reference(own) or place in ("default", str(self.file)):
            return []
        return [t("{place} also sets it and takes precedence", place=place)]

    def _locked_keys(self) -> dict[Key, str]:
        """Return the keys with a source that overrides the file, and the sentence that says so."""
        sources = self._sources
        references = References(sources.environ, {}, sources.home)
        locked = {
            key: t(
                "{key} is set by the environment variable {name}",
                key=".".join(key),
                name=value.place.name,
            )
            for key, value in EnvironmentLayer(sources.cwd, references).values.items()
        }
        for name, value in sources.overrides.items():
            if value is not None:
                sentence = t("{key} is set on the command line of this process", key=name)
                locked[tuple(name.split("."))] = sentence
        return locked

    def _refuse_locked(self, path: tuple[str, ...]) -> None:
        locked, key = self._locked_keys(), key_of(path)
        if sentence := locked.get(key) or locked.get(key[:1]):
            raise ConfigError(sentence, hint=t("change it there: it takes precedence"))

    def _content(self) -> Any:
        try:
            return editing.content_of(self.file, editing.text_of(self.file))
        except ConfigError:
            return {}

    def _row(
        self,
        path: Key,
        values: Mapping[str, Any],
        settings: Settings,
        content: Any,
        locked: Mapping[Key, str],
    ) -> dict[str, Any]:
        own = inside(content, path)
        file_value = masked(own, path)
        has_own_reference = own is not None and has_reference(own)
        value = file_value if has_own_reference else inside(values, path)
        clean = self._redactor.clean_data({"value": value, "own": file_value})
        kinds = leaf_types(path)
        return {
            "key": ".".join(path),
            **clean,
            "from": origin_of(settings, path),
            "is_set": own is not None,
            "is_secret": SecretStr in kinds or is_secret(path),
            "choices": list(choices(path)),
            "is_nullable": type(None) in kinds,
            "at_once": is_at_once(path),
            "widens": widens_access(path),
            "locked": locked.get(path) or locked.get(path[:1], ""),
        }


def _concerns(name: str, changed: Sequence[str]) -> bool:
    """Return whether a key, one of its parts or its container is among the changed keys.

    A package that is added or removed changes as a whole.
    """
    return any(
        key == name or key.startswith(f"{name}.") or name.startswith(f"{key}.") for key in changed
    )


def _digest(text: str, key: str, value: str | None) -> str:
    return hashlib.sha256(json.dumps([text, key, value]).encode()).hexdigest()
