"""Conversion of calls by models trained elsewhere to the tool's own names."""

import re
import shlex
from collections.abc import Mapping
from typing import Any

from agent.tools.base import Tool
from agent.tools.schema import properties_of
from agent.tools.traits import traits_of

# Namespace that models of OpenAI and Google put in front of a function's name.
_NAMESPACE = re.compile(r"(functions|tools|default_api)[.:/]")


def without_namespace(name: str) -> str:
    """Return the name of a called tool without a vendor's namespace."""
    return _NAMESPACE.sub("", name, count=1) if _NAMESPACE.match(name) else name


def canonical(tool: Tool, args: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments under the tool's own names."""
    properties = properties_of(tool.parameters)
    traits = traits_of(tool)
    aliases, ignored = traits.argument_aliases, traits.ignored_arguments
    renamed = {name: value for name, value in args.items() if name in properties}
    for name, value in args.items():
        if name in properties or name in ignored:
            continue
        target = aliases.get(name, name)
        renamed.setdefault(target if target in properties else name, value)
    for name, names in traits.item_aliases.items():
        if isinstance(items := renamed.get(name), list):
            renamed[name] = [_renamed_item(item, names) for item in items]
    if isinstance(paths := renamed.get("paths"), str):
        renamed["paths"] = [paths]
    if isinstance(words := renamed.get("command"), list) and all(isinstance(w, str) for w in words):
        renamed["command"] = _line(words)
    return _window(renamed) if "line_start" in properties else renamed


def _renamed_item(item: Any, names: Mapping[str, str]) -> Any:
    if not isinstance(item, dict):
        return item
    renamed = {name: value for name, value in item.items() if name not in names}
    for name, value in item.items():
        if name in names:
            renamed.setdefault(names[name], value)
    return renamed


def _line(words: list[str]) -> str:
    """Return a list of arguments as one command line; a shell that only runs it is dropped."""
    match words:
        case ["bash" | "sh" | "/bin/bash" | "/bin/sh", "-c" | "-lc", line]:
            return line
    return shlex.join(words)


def _window(args: dict[str, Any]) -> dict[str, Any]:
    """Replace `offset` (from 1) and `limit` with a range of lines."""
    offset, limit = args.pop("offset", None), args.pop("limit", None)
    if offset is not None:
        args.setdefault("line_start", offset)
    start = args.get("line_start")
    if _count(limit) and (start is None or _count(start)):
        args.setdefault("line_end", max(1, start or 1) + max(1, limit) - 1)
    elif limit is not None:
        args.setdefault("line_end", limit)
    return args


def _count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
