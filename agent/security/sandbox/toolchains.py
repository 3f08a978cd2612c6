"""Toolchains of version managers in a home folder, for commands in a sandbox."""

import tomllib
from collections.abc import Mapping
from dataclasses import field
from functools import cache
from pathlib import Path
from typing import Any

from agent.records import frozen


@frozen
class Toolchains:
    """Folders and files to read and run from, and variables that point to them."""

    folders: tuple[Path, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict)


def find_toolchains(home: Path) -> Toolchains:
    """Return the toolchains of `toolchains.toml` that exist in this home folder."""
    folders: list[Path] = []
    variables: dict[str, str] = {}
    for entry in _table().values():
        existing = [home / name for name in entry["folders"] if (home / name).exists()]
        if existing:
            folders += existing
            folder_by_name = entry.get("variables", {})
            variables |= {name: str(home / folder) for name, folder in folder_by_name.items()}
    return Toolchains(tuple(folders), variables)


@cache
def _table() -> Mapping[str, Mapping[str, Any]]:
    with Path(__file__).with_name("toolchains.toml").open("rb") as file:
        return tomllib.load(file)
