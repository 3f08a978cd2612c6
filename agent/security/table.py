"""What is known of programs: `commands.toml`, read once at first use."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any


@cache
def _read() -> dict[str, Any]:
    import tomllib

    return tomllib.loads(Path(__file__).with_name("commands.toml").read_text("utf-8"))


@cache
def wrappers() -> Mapping[str, Mapping[str, Any]]:
    """Programs that run other programs, by name; each says how it finds them."""
    table: dict[str, Mapping[str, Any]] = {}
    for key, spec in _read()["wrappers"].items():
        for name in key.split():
            table[name] = {"kind": "prefix", **spec, "name": name}
    return table


@cache
def programs() -> Mapping[str, Mapping[str, Any]]:
    """Programs that look or work, by name, with what would make them do more."""
    return {name: spec for key, spec in _read()["programs"].items() for name in key.split()}


@cache
def variables() -> Mapping[str, frozenset[str]]:
    """Names of variables that change what programs do (`risky`) or what a shell runs (`runs`)."""
    return {key: frozenset(names) for key, names in _read()["variables"].items()}


@cache
def private_names() -> frozenset[str]:
    """Components that no path of a command may have without a question, folded."""
    return frozenset(_read()["paths"]["private"])
