"""Shell lines that try to escape a sandbox, and helpers to run them."""

import tomllib
from pathlib import Path
from typing import Any

from tests.ordinary_user import DRIVER, run_as

_CORPUS = Path(__file__).parents[1] / "evasions.toml"
_IMPORTS = "import ctypes,os,socket,struct,fcntl; c=ctypes.CDLL(None,use_errno=True)"


def core() -> list[str]:
    """Return the lines specific to sandboxes."""
    lines = Path(__file__).with_name("core.txt").read_text("utf-8").splitlines()
    return [line.replace("{ctypes}", _IMPORTS) for line in lines if not line.startswith("#")]


def corpus(*categories: str) -> list[str]:
    """Return the evasions of these categories, by default of all."""
    entries = tomllib.loads(_CORPUS.read_text("utf-8"))
    return [
        e["run"] for name in categories or tuple(entries) for e in entries[name] if not e.get("dry")
    ]


def drive(place: Path, user: str, **order: Any) -> list[Any]:
    """Return the output of driver.py."""
    answer: list[Any] = run_as(user, place, DRIVER, order)
    return answer


def escapes(place: Path, user: str, **order: Any) -> list[tuple[str, list[str]]]:
    """Return the lines that escaped, each with its traces."""
    return [(line, traces) for line, traces in drive(place, user, **order)]
