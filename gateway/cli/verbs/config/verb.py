"""Command `kore config`: check and show the configuration."""

import argparse
import json
import os
from typing import Any

from agent.errors import ConfigError
from agent.i18n import t
from gateway.cli.output import clean_lines, print_json, print_table
from gateway.cli.settings import settings_of
from gateway.config.editing import inside, path_of
from gateway.config.key_catalog import key_of, keys_in, origin_of, setting_at
from gateway.config.origin import printable
from gateway.ops.config_check import check_usable
from gateway.runtime.secrets import describe


def run(args: argparse.Namespace) -> int:
    if args.file is not None:
        args.config = args.file
    return {"validate": _validate, "show": _show, "list": _list, "get": _get}[args.action](args)


def _validate(args: argparse.Namespace) -> int:
    try:
        settings = settings_of(args)
        check_usable(settings, os.environ)
    except ConfigError as exc:
        if not args.json:
            raise
        print_json({"valid": False, "errors": str(exc).splitlines()})
        return 2
    files = [str(path) for path in settings.files]
    missing = [f"{variable} (not in use now)" for variable in settings.missing]
    notes = [*missing, *settings.notes, *settings.unused]
    if args.json:
        print_json({"valid": True, "files": files, "errors": [], "notes": notes})
        return 0
    print(t("valid: {files}", files=", ".join(files) or t("no file; using the defaults")))
    for note in notes:
        print(t("note: {text}", text=note))
    return 0


def _show(args: argparse.Namespace) -> int:
    settings = describe(settings_of(args))
    # A URL may contain a password too.
    print_json(args.crash.redactor.clean_data(settings))
    return 0


def _list(args: argparse.Namespace) -> int:
    rows = [row for row in _rows(args) if not args.set or row["from"] != "default"]
    if args.json:
        print_json(rows)
        return 0
    cells = (
        (r["key"], json.dumps(_without_empty(r["value"]), ensure_ascii=False), r["from"])
        for r in rows
    )
    print_table(("key", "value", "from"), cells)
    return 0


def _without_empty(value: Any) -> Any:
    """Return a value in which the entries of a list, such as models, have no empty keys."""
    if not isinstance(value, list):
        return value
    empty: tuple[Any, ...] = (None, [], {})
    return [
        {key: member for key, member in item.items() if member not in empty}
        if isinstance(item, dict)
        else item
        for item in value
    ]


def _get(args: argparse.Namespace) -> int:
    rows = {row["key"]: row for row in _rows(args)}
    content: Any = {}
    for name, row in rows.items():
        *above, last = name.split(".")
        part = content
        for key in above:
            part = part.setdefault(key, {})
        part[last] = row["value"]
    path = path_of(args.key, content, ours=True)
    value = content
    for n, part in enumerate(path):
        if isinstance(value, dict):
            value = value.get(part)
        elif isinstance(value, list) and part.isdecimal() and int(part) < len(value):
            value = value[int(part)]
        else:
            raise ConfigError(
                t(
                    "{key}: no such entry in {above}",
                    key=printable(args.key),
                    above=printable(".".join(path[:n])),
                )
            )
        if value is None and n + 1 < len(path):
            raise ConfigError(t("{key} is not set", key=printable(args.key)))
    if args.json:
        row = rows.get(".".join(key_of(path))) or rows[path[0]]
        print_json({"key": args.key, "value": value, "from": row["from"]})
    else:
        print(clean_lines(value) if isinstance(value, str) else json.dumps(value, indent=2))
    return 0


def _rows(args: argparse.Namespace) -> list[dict[str, Any]]:
    """Return every key of the schema, with secrets masked."""
    settings = settings_of(args)
    content = args.crash.redactor.clean_data(describe(settings))
    rows = []
    for path in keys_in(settings):
        row = {"key": ".".join(path), "value": inside(content, path)}
        rows.append(row | {"from": origin_of(settings, path), "help": setting_at(path).help})
    return rows
