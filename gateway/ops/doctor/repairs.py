"""Repairs by `kore doctor --fix`; none of them loses data that people wrote."""

import os
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from agent.errors import ConfigError
from agent.i18n import t
from agent.records import frozen
from agent.text.similar_names import similar_names
from gateway.config.atomic_write import file_lock, write_atomic
from gateway.config.editing import text_of
from gateway.config.json_files.document import private, read_object
from gateway.config.json_files.jsonc import remove_value, set_value
from gateway.config.key_catalog import catalogue, names_in_package, whole_sections
from gateway.config.python_plugins import PACKAGES
from gateway.runtime.paths import DataDir, socket_address
from gateway.runtime.workspace import ensure_workspace


@frozen
class Repair:
    """Repair: `sentence` is the question, `act` carries it out. Raises `ConfigError`."""

    sentence: str
    act: Callable[[], None]


def find_repairs(home: DataDir, config: Path, workspace: Path | None) -> Iterator[Repair]:
    """Yield the possible repairs, ordered so that each may rely on the earlier ones.

    `workspace` is None if the configuration cannot be read.
    """
    if not all(folder.is_dir() for folder in (home.root, home.logs, home.audit)):
        yield Repair(t("create the folders in {path}", path=home.root), home.ensure)
    for path in _open_to_others(home, config):
        yield Repair(t("make {path} private", path=path), partial(_close, path))
    yield from _misspelt(config)
    if workspace is not None and not workspace.is_dir():
        sentence = t("create the workspace {path}", path=workspace)
        yield Repair(sentence, lambda: _ignore(ensure_workspace(workspace)))
    if _is_left_over(home.socket):
        sentence = t("remove the leftover socket {path}", path=home.socket)
        yield Repair(sentence, lambda: home.socket.unlink(missing_ok=True))


def _open_to_others(home: DataDir, config: Path) -> list[Path]:
    folders = (home.root, home.logs, home.audit)
    within = {path for folder in folders for path in folder.glob("*")} - {home.workspace}
    paths = []
    for path in (*(f for f in folders if f.is_dir()), *sorted(within | {config})):
        with suppress(FileNotFoundError):
            if not path.is_symlink() and not private(path):
                paths.append(path)
    return list(dict.fromkeys(paths))


def _close(path: Path) -> None:
    try:
        path.chmod(path.stat().st_mode & 0o700)
    except OSError as exc:
        raise ConfigError(f"{path}: {exc.strerror}") from None


def _misspelt(config: Path) -> Iterator[Repair]:
    """Yield repairs for unknown sections and keys that are one typo away from an unused one."""
    try:
        raw = read_object(config) or {}
    except ConfigError:
        return
    sections = (*catalogue(), *whole_sections())
    for section, content in raw.items():
        if section not in sections:
            yield from _typo_repair(config, (section,), sections, raw)
        elif section in catalogue() and isinstance(content, dict):
            for key in content:
                if key not in catalogue()[section]:
                    yield from _typo_repair(config, (section, key), catalogue()[section], content)
        elif section == PACKAGES and isinstance(content, dict):
            for name, options in content.items():
                yield from _misspelt_in_package(config, name, options)


def _misspelt_in_package(config: Path, name: str, options: Any) -> Iterator[Repair]:
    for key in options if isinstance(options, dict) else ():
        path = (PACKAGES, name, key)
        names = names_in_package(path)
        if names and key not in names:
            yield from _typo_repair(config, path, names, options)


def _typo_repair(
    config: Path, path: tuple[str, ...], names: tuple[str, ...], siblings: Mapping[str, Any]
) -> Iterator[Repair]:
    close = similar_names(path[-1].lower(), names, cutoff=0.75)
    if close and close[0] not in siblings:
        sentence = t(
            'in {path}: rename "{found}" to "{meant}"', path=config, found=path[-1], meant=close[0]
        )
        yield Repair(sentence, lambda: _rename(config, path, close[0]))


def _rename(config: Path, path: tuple[str, ...], name: str) -> None:
    with file_lock(config):
        content: Any = read_object(config)
        for part in path:
            content = content[part]
        text = set_value(text_of(config), (*path[:-1], name), content)
        write_atomic(config, remove_value(text, path))


def _is_left_over(path: Path) -> bool:
    """Return whether a socket exists that no process serves."""
    if not path.is_socket():
        return False
    with socket_address(path) as address, socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(os.fspath(address))
        except ConnectionRefusedError:
            return True
        except OSError:
            return False
    return False


def _ignore(_: object) -> None:
    """Ignore a result."""
