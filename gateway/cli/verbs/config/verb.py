"""Command `kore config`: check, show and change the configuration."""

import argparse
import os
from pathlib import Path
from typing import Any

from agent.errors import ConfigError
from agent.i18n import mark_for_translation, t
from gateway.cli.context import record_change, sources_of


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    for name, summary in {
        "validate": mark_for_translation("validate the configuration"),
        "show": mark_for_translation("print the effective configuration"),
    }.items():
        part = actions.add_parser(name, help=summary)
        part.add_argument(
            "file", nargs="?", type=Path, metavar="FILE", help="instead of your own configuration"
        )
        part.add_argument("--json", action="store_true", help="print JSON")
    listing = actions.add_parser("list", help="list every key with its value and origin")
    listing.add_argument(
        "--set", action="store_true", help="only values that differ from the default"
    )
    reading = actions.add_parser("get", help="show one value")
    setting = actions.add_parser("set", help="set one value in the file")
    unsetting = actions.add_parser("unset", help="remove one value from the file")
    editing = actions.add_parser("edit", help="open the file in $VISUAL or $EDITOR, then check it")
    for part in (reading, setting, unsetting):
        part.add_argument("key", metavar="SECTION.KEY", help="such as agent.model")
    setting.add_argument(
        "value", nargs="?", metavar="VALUE", help="text or JSON (default: ask for it)"
    )
    importing = actions.add_parser("import", help="import settings from other programs")
    importing.add_argument("file", nargs="?", type=Path, metavar="FILE", help="only this file")
    importing.add_argument("--json", action="store_true", help="print JSON")
    reverting = actions.add_parser("revert", help="restore the last configuration a gateway used")
    reverting.add_argument("--json", action="store_true", help="print JSON")
    for part in (listing, reading, setting, unsetting, editing):
        part.add_argument("--file", type=Path, metavar="FILE", help="another configuration file")
        part.add_argument("--json", action="store_true", help="print JSON")


def run(args: argparse.Namespace) -> int:
    if args.action in ("set", "unset", "edit", "revert", "import"):
        from gateway.cli.verbs.config import edit, foreign

        act = foreign.import_foreign if args.action == "import" else getattr(edit, args.action)
        code = int(act(args, sources_of(args)))
        record_change(args, "setting", getattr(args, "key", ""))
        return code
    if args.file is not None:
        args.config = args.file
    return {"validate": _validate, "show": _show, "list": _list, "get": _get}[args.action](args)


def _validate(args: argparse.Namespace) -> int:
    from gateway.cli.context import settings_of
    from gateway.cli.output import print_json
    from gateway.ops.config_check import check_usable

    try:
        settings = settings_of(args)
        check_usable(settings, os.environ)
    except ConfigError as exc:
        if not args.json:
            raise
        print_json({"valid": False, "errors": str(exc).splitlines()})
        return 2
    files = [str(path) for path in settings.files]
    notes = [*(f"{lack} (not in use now)" for lack in settings.missing), *settings.notes]
    if args.json:
        print_json({"valid": True, "files": files, "errors": [], "notes": notes})
        return 0
    print(t("valid: {files}", files=", ".join(files) or t("no file; using the defaults")))
    for note in notes:
        print(t("note: {text}", text=note))
    return 0


def _show(args: argparse.Namespace) -> int:
    from gateway.cli.context import settings_of
    from gateway.cli.output import print_json
    from gateway.runtime.secrets import describe

    settings = describe(settings_of(args))
    # A URL may contain a password too.
    print_json(args.crash.redactor.clean_data(settings))
    return 0


def _list(args: argparse.Namespace) -> int:
    import json

    from gateway.cli.output import print_json, print_table

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
        {key: member for key, member in one.items() if member not in empty}
        if isinstance(one, dict)
        else one
        for one in value
    ]


def _get(args: argparse.Namespace) -> int:
    import json

    from gateway.cli.output import clean_lines, print_json
    from gateway.config.editing import path_of
    from gateway.config.origin import printable

    rows = {row["key"]: row for row in _rows(args)}
    content: Any = {}
    for name, row in rows.items():
        section, _, key = name.partition(".")
        if key:
            content.setdefault(section, {})[key] = row["value"]
        else:
            content[section] = row["value"]
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
        row = rows.get(".".join(path[:2])) or rows[path[0]]
        print_json({"key": args.key, "value": value, "from": row["from"]})
    else:
        print(clean_lines(value) if isinstance(value, str) else json.dumps(value, indent=2))
    return 0


def _rows(args: argparse.Namespace) -> list[dict[str, Any]]:
    """Return every key of the schema, with secrets masked."""
    from gateway.cli.context import settings_of
    from gateway.config.key_catalog import all_keys
    from gateway.runtime.secrets import describe

    settings = settings_of(args)
    content = args.crash.redactor.clean_data(describe(settings))
    rows = []
    for path in all_keys():
        value = content[path[0]][path[1]] if len(path) > 1 else content[path[0]]
        place = settings.places.get(path, "default")
        rows.append({"key": ".".join(path), "value": value, "from": place})
    return rows
