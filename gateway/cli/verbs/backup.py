"""Commands `kore backup` and `kore restore`."""

import argparse
import asyncio
import os
import shlex
import sys
import time
import zipfile
from collections.abc import Mapping
from pathlib import Path

from agent.errors import ConfigError, KoreError
from agent.i18n import plural, t
from agent.security.files.folder_tree import TreeWalk, copy_tree, scratch_folder
from agent.security.files.safe_open import LISTED, open_folder_beneath
from agent.security.taint.file_marks import MarkLevel
from gateway.cli.backup_archive import BESIDE, CHANNELS, DATABASE, WORKSPACE, unpack_backup
from gateway.cli.folders import data_dir_of
from gateway.cli.output import print_json, size
from gateway.cli.service_link import NotRunning, open_service, settings_to_copy
from gateway.cli.settings import settings_of, sources_of
from gateway.config import Settings
from gateway.config.atomic_write import write_atomic
from gateway.config.json_files.document import read_object, read_text
from gateway.ops.backup_marks import MarkWriter, put_marks
from gateway.ops.restore_review import review_restore
from gateway.ops.zip_writer import ZipWriter
from gateway.runtime.lock import acquire
from gateway.runtime.paths import DataDir
from gateway.store.cipher import cipher_of
from gateway.store.copying import check_empty, copy_store
from gateway.store.errors import StoreError
from gateway.store.opening import copy_unowned, whole_database, whole_postgres
from gateway.store.sqlite.backup import BackupSummary, mark_restored, put_in_place, read_back


def config_files(args: argparse.Namespace) -> dict[str, Path]:
    """Return the path of each file; `--config` and `KORE_CONFIG` may move the configuration."""
    root = data_dir_of(args).root
    return {name: root / name for name in BESIDE} | {BESIDE[0]: sources_of(args).own_file}


def _counts_text(summary: BackupSummary) -> str:
    """Return the contents of a backup as text."""
    parts = (
        plural(summary.counts["conversations"], "{n:,} conversation", "{n:,} conversations"),
        plural(summary.counts["messages"], "{n:,} message", "{n:,} messages"),
        t("{n:,} received", n=summary.counts["received"]),
        t("{n:,} sent", n=summary.counts["sent"]),
    )
    return ", ".join(parts)


def run_backup(args: argparse.Namespace) -> int:
    target = (Path.cwd() / args.file.expanduser()).resolve()
    if target.exists():
        raise KoreError(
            t("{path} exists already", path=target), hint=t("choose a file that does not exist")
        )
    if not target.parent.is_dir():
        raise KoreError(t("{path}: no such folder", path=target.parent))
    settings, is_whole = settings_to_copy(args)
    summary, names, missing = asyncio.run(_backup(args, settings, target, own=is_whole))
    copied = target.stat().st_size
    if args.json:
        facts = {"file": str(target), "size_bytes": copied, "schema": summary.schema}
        facts |= {"counts": summary.counts, "sealed": summary.sealed, "with": names}
        print_json({**facts, "left_out": missing})
        return 0
    counts = _counts_text(summary)
    print(t("{path}: {size}, verified: {found}", path=target, size=size(copied), found=counts))
    if names:
        print(t("includes {names}; it contains your keys, so keep it safe", names=", ".join(names)))
    else:
        print(t("database only; use FILE.zip to include configuration, secrets and workspace"))
    if missing:
        print(left_out(missing))
    if summary.sealed:
        print(
            t(
                "its messages are encrypted: they cannot be read without the key they were "
                "encrypted with"
            )
        )
    return 0


def left_out(count: int) -> str:
    return plural(
        count,
        "skipped: {n:,} file or folder that is nested too deeply, has an invalid name or "
        "cannot be read",
        "skipped: {n:,} files or folders that are nested too deeply, have invalid names "
        "or cannot be read",
    )


async def _backup(
    args: argparse.Namespace, settings: Settings, target: Path, *, own: bool
) -> tuple[BackupSummary, list[str], int]:
    """Create the backup.

    Without `own`, the settings are not valid enough to own the data, which is only copied then.
    """
    is_zip = target.suffix == ".zip"
    copy = target.with_name(f".{target.name}.db") if is_zip else target
    copy.unlink(missing_ok=True) if is_zip else None
    try:
        try:
            async with open_service(settings, data_dir_of(args), own=own) as service:
                await service.backup(copy)
        except NotRunning:
            await asyncio.to_thread(copy_unowned, settings.store.url, copy)
        summary = await asyncio.to_thread(read_back, copy)
        if not is_zip:
            return summary, [], 0
        names, missing = await asyncio.to_thread(_pack, args, settings, copy, target)
    finally:
        if is_zip:
            copy.unlink(missing_ok=True)
    return summary, names, missing


def _pack(
    args: argparse.Namespace, settings: Settings, copy: Path, target: Path
) -> tuple[list[str], int]:
    """Write and verify the zip file.

    Returns the names of its contents besides the database, and the number of workspace files that
    were left out.
    """
    home, workspace = data_dir_of(args), settings.agent.workspace
    names = []
    part = target.with_name(f".{target.name}.part")
    part.unlink(missing_ok=True)
    try:
        descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with (
            open(descriptor, "wb") as file,
            zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, strict_timestamps=False) as packed,
        ):
            packed.write(copy, DATABASE)
            for name, path in config_files(args).items():
                if path.is_file():
                    packed.write(path, name)
                    names.append(name if path == home.root / name else f"{name} ({path})")
            packing = ZipWriter(packed)
            if home.channels.is_dir():
                _pack_channels(home.channels, packing)
                names.append(CHANNELS)
            # A backup must not include itself.
            own = [path.stat() for path in (copy, part)]
            if workspace.is_dir():
                marks = MarkWriter(packed, workspace.resolve())
                without = [(s.st_dev, s.st_ino) for s in own]
                _pack_workspace(workspace.resolve(), packing, marks, without)
            names.append(t("{path} (links skipped)", path=workspace))
        with zipfile.ZipFile(part) as packed:
            if (damaged_name := packed.testzip()) is not None:
                raise KoreError(
                    t("the backup failed verification: {name} is damaged", name=damaged_name)
                )
        part.rename(target)
    except OSError as exc:
        raise KoreError(
            t("{path} cannot be written: {strerror}", path=target, strerror=exc.strerror or exc)
        ) from exc
    finally:
        part.unlink(missing_ok=True)
    return names, packing.left_out


def _pack_channels(folder: Path, packing: ZipWriter) -> None:
    """Pack the files of channels; links are skipped."""
    with open_folder_beneath(folder.resolve(), flags=LISTED) as root:
        walk = TreeWalk(root)
        for member in walk:
            if member.is_file:
                packing.add(member, CHANNELS)
        packing.left_out += walk.left_out


def _pack_workspace(
    workspace: Path, packing: ZipWriter, marks: MarkWriter, without: list[tuple[int, int]]
) -> None:
    """Pack the workspace files except `without`, given by device and inode.

    Links are skipped, because their targets are not part of the workspace.
    """
    with open_folder_beneath(workspace, flags=LISTED) as root:
        walk = TreeWalk(root)
        for member in walk:
            entry = None
            if member.is_file and (member.info.st_dev, member.info.st_ino) not in without:
                entry = packing.add(member, WORKSPACE)
            elif member.is_done and marks.level(member.path) != "none":
                entry = packing.add_folder(member, WORKSPACE)
            if entry is not None:
                marks.add(member.path, entry)
        packing.left_out += walk.left_out


def _put_database(copy: Path, settings: Settings, previous: list[str]) -> BackupSummary:
    """Replace the configured database and return a summary of the new contents.

    The path of the previous database is added to `previous`. Raises `StoreError`.
    """
    if settings.store.path is not None:
        if aside := put_in_place(copy, settings.store.path):
            previous.append(str(aside))
        return read_back(settings.store.path)

    mark_restored(copy)
    cipher = cipher_of(settings.store.encryption_key_env, os.environ)
    # Row by row, and compared; a database with contents is rejected.
    copy_store(whole_database(f"sqlite:///{copy}"), whole_postgres(settings.store.url), cipher)
    return read_back(copy)


def _check_database(settings: Settings) -> None:
    """Reject a server database with contents before anything is replaced. Raises `StoreError`."""
    if settings.store.path is not None:
        return

    cipher = cipher_of(settings.store.encryption_key_env, os.environ)
    check_empty(whole_postgres(settings.store.url), cipher)


def run_restore(args: argparse.Namespace) -> int:
    file, home = (Path.cwd() / args.file.expanduser()).resolve(), data_dir_of(args)
    home.ensure()
    if not file.is_file():
        raise KoreError(t("{path}: no such file", path=file))
    with (
        acquire(home.lock, "kore restore"),
        scratch_folder(".restore-", home.root) as parts,
    ):
        marks = unpack_backup(file, parts)
        try:
            summary = read_back(parts / DATABASE)
        except StoreError as exc:  # it names the unpacked temporary file
            message = str(exc).replace(str(parts / DATABASE), str(file))
            raise StoreError(message, hint=exc.hint) from exc
        previous: list[str] = []
        coming = settings_of(args) if args.database_only else _check(args, parts)
        _check_database(coming)
        print(f"{file}: {size(file.stat().st_size)}, {_counts_text(summary)}", file=sys.stderr)
        if not args.database_only:
            _review(args, parts, coming)
        _ask(args)
        if not args.database_only:
            previous += _put_beside(parts, config_files(args), home)
        # From now on, the restored configuration determines the paths.
        settings = settings_of(args)
        now = _put_database(parts / DATABASE, settings, previous)
        if not args.database_only and (parts / WORKSPACE).is_dir():
            previous += _put_folder(parts / WORKSPACE, settings.agent.workspace, marks)
        if not args.database_only and (parts / CHANNELS).is_dir():
            # If a kill leaves no such folder, the next start takes the new one as complete.
            home.channels.mkdir(mode=0o700, exist_ok=True)
            previous += _put_folder(parts / CHANNELS, home.channels, {})
            home.channels.chmod(0o700)
    if args.json:
        print_json({"counts": now.counts, "schema": now.schema, "kept": previous})
        return 0
    print(t("restored and verified: {found}", found=_counts_text(now)))
    for path in previous:
        print(t("previous version: {path}", path=path))
    print(t("Messages received and confirmed after the backup are only in the previous version."))
    return 0


def _review(args: argparse.Namespace, parts: Path, coming: Settings) -> None:
    """Show the changes of the configuration and ask about each moved path. Raises `KoreError`."""
    review = review_restore(_present(args), coming, parts, config_files(args)[BESIDE[2]])
    for line in review.lines:
        print(line, file=sys.stderr)
    for place in review.places:
        moves = t(
            "The {name} of the backup goes to {path}.", name=place.name, path=place.display_path
        )
        if not sys.stdin.isatty():
            hint = t(
                "nothing was restored; if it may go there, set {variable}, or use --database-only",
                variable=place.variable,
            )
            raise KoreError(moves, hint=hint)
        print(moves, file=sys.stderr)
        _ask_for_yes(t("Replace what is there? Type yes: "))


def _present(args: argparse.Namespace) -> Settings:
    """Return the current settings, or the defaults if they do not load."""
    try:
        return settings_of(args)
    except ConfigError:
        sources = sources_of(args)
        return sources.load({sources.own_file: {}, sources.secrets_file: {}})


def _ask(args: argparse.Namespace) -> None:
    if args.yes:
        return
    if not sys.stdin.isatty():
        raise KoreError(t("nothing was restored"), hint=t("use --yes to skip the question"))
    _ask_for_yes(t("Replace the current data? Type yes: "))


def _ask_for_yes(question: str) -> None:
    print(question, end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip() != "yes":
        raise KoreError(t("nothing was restored"))


def _check(args: argparse.Namespace, parts: Path) -> Settings:
    """Return the settings of the backup, checked before anything is replaced."""
    config, secrets = read_object(parts / BESIDE[0]), read_object(parts / BESIDE[1])
    if config is None:
        return settings_of(args)
    sources = sources_of(args)
    try:
        return sources.load({sources.own_file: config, sources.secrets_file: secrets or {}})
    except ConfigError as exc:
        hint = t("nothing was restored; --database-only leaves the configuration as it is")
        raise ConfigError(str(exc), hint=hint) from None


def _put_beside(parts: Path, places: Mapping[str, Path], home: DataDir) -> list[str]:
    previous = []
    for name, path in places.items():
        text, old = read_text(parts / name), read_text(path)
        if text is None or text == old:
            continue
        if old is not None:
            home.backups.mkdir(mode=0o700, exist_ok=True)
            aside = home.backups / f"before-restore-{_stamp()}-{name}"
            write_atomic(aside, old)
            previous.append(str(aside))
            # Print it immediately, because a later step may fail.
            print(
                t("the previous {path} is saved as {aside}", path=path, aside=aside),
                file=sys.stderr,
            )
        write_atomic(path, text)
        path.chmod(0o600)
    return previous


def _put_folder(source: Path, folder: Path, marks: Mapping[str, MarkLevel] | None) -> list[str]:
    """Replace a folder by the one of the backup; return the path of the previous one."""
    previous = []
    new_folder = folder.with_name(f".{folder.name}.restore-{_stamp()}")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        copy_tree(source, new_folder)
        put_marks(new_folder, marks)
        if folder.exists() and not any(folder.iterdir()):
            folder.rmdir()
        elif folder.exists():
            aside = folder.with_name(f"{folder.name}.before-restore-{_stamp()}")
            folder.rename(aside)
            previous.append(str(aside))
        new_folder.rename(folder)
        if marks is None:
            print(_unknown_marks(folder), file=sys.stderr)
    except OSError as exc:
        raise KoreError(
            t("{path} could not be replaced: {reason}", path=folder, reason=exc)
        ) from exc
    return previous


def _unknown_marks(workspace: Path) -> str:
    return t(
        "this backup does not say which files hold untrusted content, so all of them count as "
        "untrusted; to trust them: kore trust {path}",
        path=shlex.quote(str(workspace)),
    )


def _stamp() -> str:
    return f"{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}"
