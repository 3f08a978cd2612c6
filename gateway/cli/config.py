"""`kore config`: is the configuration right, and what does it come to?"""

import argparse
import os
from pathlib import Path

from agent.errors import ConfigError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", choices=("validate", "show"), help="check it, or print it")
    parser.add_argument("file", nargs="?", type=Path, metavar="FILE", help="instead of your own")
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(args: argparse.Namespace) -> int:
    if args.file is not None:
        args.config = args.file
    return _validate(args) if args.action == "validate" else _show(args)


def _validate(args: argparse.Namespace) -> int:
    from gateway.cli.basis import settings_of
    from gateway.cli.table import print_json
    from gateway.policies import Policies
    from gateway.settings import require_model, require_telegram
    from gateway.settings.models import check_models

    try:
        settings = settings_of(args)
        require_model(settings)
        check_models(settings, os.environ)
        require_telegram(settings)
        Policies.of(settings)
    except ConfigError as exc:
        if not args.json:
            raise
        print_json({"valid": False, "errors": str(exc).splitlines()})
        return 2
    files = [str(path) for path in settings.files]
    notes = [str(lack) for lack in settings.missing]
    if args.json:
        print_json({"valid": True, "files": files, "errors": [], "notes": notes})
        return 0
    print(f"valid: {', '.join(files) or 'no file, the defaults hold'}")
    for note in notes:
        print(f"note: {note} (not in use now)")
    return 0


def _show(args: argparse.Namespace) -> int:
    from gateway.cli.basis import settings_of
    from gateway.cli.table import print_json
    from gateway.secrets import describe

    settings = describe(settings_of(args))
    # An address may hold a password too.
    print_json(args.crash.redactor.clean_data(settings))
    return 0
