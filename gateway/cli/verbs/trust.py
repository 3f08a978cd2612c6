"""Command `kore trust`: trust the files and the configuration of a folder."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from agent.errors import KoreError
from agent.i18n import t
from gateway.cli.folders import data_dir_of
from gateway.cli.output import clean, print_json, tell
from gateway.cli.project_folder import change_folders, show_configuration, trust_folder
from gateway.config.folder_trust import distrust


def run(args: argparse.Namespace) -> int:
    folder, home = (Path.cwd() / (args.folder or ".")).resolve(), data_dir_of(args).root
    if args.revoke:
        return _revoke(args, folder, home)
    if not folder.exists():
        raise KoreError(t("{folder}: no such folder", folder=folder))
    if home.resolve().is_relative_to(folder):
        raise KoreError(
            t(
                "{folder} contains Kore's own folder and cannot be trusted as a whole",
                folder=folder,
            ),
            hint=t("choose a project inside it: kore trust FOLDER"),
        )
    digests = _confirmed(args, folder, home)
    count, is_new = trust_folder(args, folder, home, digests)
    if args.json:
        print_json({"folder": str(folder), "trusted": [str(path) for path in digests]})
        return 0
    name = clean(str(folder))
    for path in digests:
        print(t("trusted in its current version: {path}", path=clean(str(path))))
    if is_new:
        print(t("{folder}: its files are now trusted", folder=name))
    elif count:
        print(t("{folder}: its current contents are now trusted", folder=name))
    elif not digests:
        print(t("{folder} is trusted already", folder=name))
    return 0


def _confirmed(args: argparse.Namespace, folder: Path, home: Path) -> dict[Path, str]:
    """Return the digests of the folder's configuration once a person has confirmed the trust.

    Raises `KoreError`.
    """
    digests = show_configuration(folder, home, silent=args.yes)
    if not args.yes:
        if not sys.stdin.isatty():
            raise KoreError(t("nothing was changed"), hint=t("use --yes to skip the question"))
        warning = t(
            "All files in {folder} are then trusted like your own messages: instructions "
            "in them can send data off this machine without asking.",
            folder=clean(str(folder)),
        )
        tell(warning)
        print(t("Trust its current version? Type yes: "), end="", file=sys.stderr, flush=True)
        if sys.stdin.readline().strip() != "yes":
            raise KoreError(t("nothing was changed"))
    return digests


def _revoke(args: argparse.Namespace, folder: Path, home: Path) -> int:
    count = distrust(folder, home)

    def without(folders: Sequence[str]) -> list[str]:
        return [text for text in folders if Path(text).expanduser().resolve() != folder]

    count += change_folders(args, without)
    print(t("{folder}: no longer trusted: {n}", folder=clean(str(folder)), n=count))
    return 0
