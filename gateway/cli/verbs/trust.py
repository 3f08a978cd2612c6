"""`kore trust`: let the files of a folder, and what it brings along, count as one's own."""

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from agent.errors import KoreError
from agent.i18n import t
from gateway.cli.context import data_dir_of
from gateway.cli.output import clean_lines, print_json

_KEY = ("security", "trusted_folders")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "folder", nargs="?", type=Path, metavar="FOLDER", help="default: this folder"
    )
    parser.add_argument("-y", "--yes", action="store_true", help="do not ask for confirmation")
    parser.add_argument("--revoke", action="store_true", help="revoke the trust")
    parser.add_argument("--json", action="store_true", help="print JSON")


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
    count, is_new = grant(args, folder, home, digests)
    if args.json:
        print_json({"folder": str(folder), "trusted": [str(path) for path in digests]})
        return 0
    for path in digests:
        print(t("trusted in its current version: {path}", path=path))
    if is_new:
        print(t("{folder}: its files are now trusted", folder=folder))
    elif count:
        print(t("{folder}: its current contents are now trusted", folder=folder))
    elif not digests:
        print(t("{folder} is trusted already", folder=folder))
    return 0


def grant(
    args: argparse.Namespace, folder: Path, home: Path, digests: Mapping[Path, str]
) -> tuple[int, bool]:
    """Trust the folder, and the files of it that hold what has these digests: how many marks of
    strangers' words went, and whether the folder is new in the configuration. Raises
    `KoreError`."""
    from agent.security.taint.file_marks import unmark
    from gateway.config.folder_trust import digest, remember

    if unread := [path for path, one in digests.items() if not one]:
        raise KoreError(t("{path} cannot be read, or is too large", path=unread[0]))
    if digests:
        remember(digests, home)
    if changed_paths := [path for path, one in digests.items() if digest(path) != one]:
        raise KoreError(
            t("{path} changed in the meantime; this version is not trusted", path=changed_paths[0]),
            hint=t("review it again: kore trust"),
        )
    return unmark(folder), folder.is_dir() and _add(args, folder)


def show_configuration(folder: Path, home: Path, *, silent: bool = False) -> dict[Path, str]:
    """Show the configuration that the folder brings along, as far as it is not trusted; the
    digests of what was shown, and of what is trusted."""
    from agent.security.redaction import Redactor
    from gateway.config.folder_trust import content, digest_of, is_trusted, project_files_in
    from gateway.config.references import read_secrets

    # Before they are shown: a change made while the person reads is not trusted.
    read = {path: content(path) for path in project_files_in(folder)}
    new = [path for path in read if not is_trusted(path, home)]
    if new and not silent:
        clean = Redactor(read_secrets(home / "secrets.json").values()).clean
        for path in new:
            print(f"{path}:\n{clean(_render(path, read[path]))}\n", file=sys.stderr)
        if sys.stdin.isatty():
            print(t("They can then set models, URLs and servers to start."), file=sys.stderr)
    return {path: "" if raw is None else digest_of(raw) for path, raw in read.items()}


def _confirmed(args: argparse.Namespace, folder: Path, home: Path) -> dict[Path, str]:
    """The configuration that the folder brings along, as it is now, once a person has agreed to
    that and to the folder. Raises `KoreError`."""
    digests = show_configuration(folder, home, silent=args.yes)
    if not args.yes:
        if not sys.stdin.isatty():
            raise KoreError(t("nothing was changed"), hint=t("use --yes to skip the question"))
        warning = t(
            "All files in {folder} are then trusted like your own messages: instructions "
            "in them can send data off this machine without asking.",
            folder=folder,
        )
        print(warning, file=sys.stderr)
        print(t("Trust its current version? Type yes: "), end="", file=sys.stderr, flush=True)
        if sys.stdin.readline().strip() != "yes":
            raise KoreError(t("nothing was changed"))
    return digests


def _add(args: argparse.Namespace, folder: Path) -> bool:
    """Name the folder in the configuration; False when its files are the owner's already."""
    from gateway.cli.context import settings_of
    from gateway.turns.agent_profiles import origin_of

    if origin_of(settings_of(args)).is_own(folder):
        return False
    _change(args, lambda folders: [*folders, str(folder)])
    if not origin_of(settings_of(args)).is_own(folder):
        raise KoreError(
            t("security.trusted_folders is also set elsewhere, which takes precedence"),
            hint=t("`kore config list` shows where"),
        )
    return True


def _revoke(args: argparse.Namespace, folder: Path, home: Path) -> int:
    from gateway.config.folder_trust import distrust

    count = distrust(folder, home)

    def without(folders: Sequence[str]) -> list[str]:
        return [one for one in folders if Path(one).expanduser().resolve() != folder]

    count += _change(args, without)
    print(t("{folder}: no longer trusted: {n}", folder=folder, n=count))
    return 0


def _change(args: argparse.Namespace, update: Callable[[Sequence[str]], list[str]]) -> bool:
    """Write the list of trusted folders anew; False when it stays as it is."""
    from gateway.cli.context import sources_of
    from gateway.config import editing
    from gateway.config.atomic_write import file_lock
    from gateway.config.foreign_formats import is_foreign

    sources = sources_of(args)
    file = sources.own_file
    if is_foreign(file):
        raise KoreError(
            t("{path} belongs to another program and cannot store this", path=file),
            hint=t("create Kore's own configuration with `kore init`"),
        )
    with file_lock(file):
        configured = editing.inside(editing.content_of(file, editing.text_of(file)), _KEY)
        folders = [str(one) for one in configured] if isinstance(configured, list) else []
        updated = update(folders)
        if updated == folders:
            return False
        editing.setting(sources, file, _KEY, updated).write(sources)
    return True


def _render(path: Path, raw: bytes | None) -> str:
    """What it said when it was read, without its secrets."""
    import json

    from gateway.config.json_document import read_text
    from gateway.config.jsonc import read
    from gateway.config.secret_keys import masked

    try:
        content = masked(read(read_text(path, raw) or "").value)
    except ValueError as exc:
        raise KoreError(f"{path}: {exc}") from None
    return clean_lines(json.dumps(content, indent=2, ensure_ascii=False))
