"""`kore trust`: let the files that a folder brings along count as one's own."""

import argparse
import sys
from pathlib import Path

from agent.errors import KoreError
from agent.language import t
from gateway.cli.basis import home_of
from gateway.cli.table import clean_lines, print_json


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", nargs="?", type=Path, metavar="FOLDER", help="else this one")
    parser.add_argument("-y", "--yes", action="store_true", help="do not ask")
    parser.add_argument("--revoke", action="store_true", help="take it back")
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(args: argparse.Namespace) -> int:
    from agent.security.redaction import Redactor
    from gateway.settings.references import read_secrets
    from gateway.settings.trust import (
        PROJECT,
        brought,
        content,
        digest,
        digest_of,
        distrust,
        is_trusted,
        remember,
    )

    folder, home = (Path.cwd() / (args.folder or ".")).resolve(), home_of(args).root
    if args.revoke:
        count = distrust(folder, home)
        print(t("{folder}: no longer trusted: {n}", folder=folder, n=count))
        return 0
    # In the folder above Kore's own, its configuration is nobody else's.
    files = [path for path in brought(folder) if path != home / "config.json"]
    if not files:
        raise KoreError(
            t(
                "{folder} brings nothing along for Kore: none of {names}",
                folder=folder,
                names=", ".join(PROJECT),
            )
        )
    # Before they are shown: what was changed while somebody read is not trusted.
    read = {path: content(path) for path in files}
    held = {path: "" if raw is None else digest_of(raw) for path, raw in read.items()}
    new = [path for path in files if not is_trusted(path, home)]
    if new and not args.yes:
        clean = Redactor(read_secrets(home / "secrets.json").values()).clean
        for path in new:
            print(f"{path}:\n{clean(_shown(path, read[path]))}\n", file=sys.stderr)
        if not sys.stdin.isatty():
            raise KoreError(t("nothing was changed"), hint=t("--yes does it without a question"))
        print(t("They may then set models, addresses and servers to start."), file=sys.stderr)
        asked = t("Trust these files as they are? Type yes: ")
        print(asked, end="", file=sys.stderr, flush=True)
        if sys.stdin.readline().strip() != "yes":
            raise KoreError(t("nothing was changed"))
    if unread := [path for path in files if not held[path]]:
        raise KoreError(t("{path} cannot be read, or is too large", path=unread[0]))
    remember(held, home)
    if changed := [path for path in files if digest(path) != held[path]]:
        raise KoreError(
            t("{path} was changed meanwhile; it is not trusted as it is now", path=changed[0]),
            hint=t("look at it again: kore trust"),
        )
    if args.json:
        print_json({"trusted": [str(path) for path in files]})
    else:
        for path in files:
            print(t("trusted as it is now: {path}", path=path))
    return 0


def _shown(path: Path, raw: bytes | None) -> str:
    """What it said when it was read, without its secrets."""
    import json

    from gateway.settings.document import read_text
    from gateway.settings.jsonc import read
    from gateway.settings.keeping import starred

    try:
        content = starred(read(read_text(path, raw) or "").value)
    except ValueError as exc:
        raise KoreError(f"{path}: {exc}") from None
    return clean_lines(json.dumps(content, indent=2, ensure_ascii=False))
