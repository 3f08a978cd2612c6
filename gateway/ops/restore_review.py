"""Review of a backup before it is restored: changed permissions and moved places."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from agent.errors import ConfigError
from agent.i18n import t
from agent.records import frozen
from agent.text.visible import escape_for_approval
from gateway.config import Settings
from gateway.config.diff import update
from gateway.config.editing import inside
from gateway.config.folder_trust import FILE
from gateway.config.json_files.document import read_object
from gateway.config.key_catalog import widens_access
from gateway.config.secret_keys import masked

_MAX_VALUE_CHARS = 2_000


@frozen
class MovedPlace:
    """Path that the backup replaces although the current configuration does not use it.

    `variable` sets the path for one call of `kore`.
    """

    name: str
    path: Path
    variable: str

    @property
    def display_path(self) -> str:
        return _visible(str(self.path))


@frozen
class RestoreReview:
    """Lines that describe the backup's changes, and the places that it moves."""

    lines: tuple[str, ...]
    places: tuple[MovedPlace, ...]


def review_restore(
    present: Settings, coming: Settings, parts: Path, trust_file: Path
) -> RestoreReview:
    """Compare the settings and the backup's files in `parts` with the current ones.

    Raises `ConfigError` for an unreadable file of the backup.
    """
    lines = []
    config = read_object(parts / "config.json")
    if changes := list(_widening_lines(present, coming, config)):
        lines += [t("The backup changes what Kore may do:"), *changes]
    if names := list(_newly_trusted(read_object(parts / FILE) or {}, trust_file)):
        lines += [t("The backup trusts these files:"), *names]
    return RestoreReview(tuple(lines), tuple(_moved_places(present, coming)))


def _moved_places(present: Settings, coming: Settings) -> Iterator[MovedPlace]:
    """Yield a workspace outside of the current one, and a database in another file."""
    workspace = coming.agent.workspace.resolve()
    if not workspace.is_relative_to(present.agent.workspace.resolve()):
        yield MovedPlace(t("workspace"), workspace, "KORE_AGENT_WORKSPACE")
    database, current = coming.store.path, present.store.path
    if database is not None and (current is None or database.resolve() != current.resolve()):
        yield MovedPlace(t("database"), database.resolve(), "KORE_STORE_URL")


def _widening_lines(present: Settings, coming: Settings, config: Any) -> Iterator[str]:
    """Yield each key that changes Kore's permissions, with its value in `config`.

    Secrets in it are references.
    """
    diff = update(present, coming)
    for key in (*diff.changed_keys, *diff.restart_keys):
        path = tuple(key.split("."))
        if widens_access(path):
            value = inside(config, path)
            text = json.dumps(masked(value, path), ensure_ascii=False)
            yield f"  {key}: {t('default') if value is None else _visible(text)}"


def _newly_trusted(coming: Mapping[str, Any], trust_file: Path) -> Iterator[str]:
    """Yield the project files that the backup trusts and that are not trusted now."""
    try:
        present = read_object(trust_file) or {}
    except ConfigError:
        present = {}
    for name, digest in coming.items():
        if present.get(name) != digest:
            yield f"  {_visible(name)}"


def _visible(text: str) -> str:
    visible = escape_for_approval(text[:_MAX_VALUE_CHARS])
    if len(text) > _MAX_VALUE_CHARS:
        visible += f"… (+{len(text) - _MAX_VALUE_CHARS:,})"
    return visible
