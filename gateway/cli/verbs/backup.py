"""Command `kore backup`: a copy of the database, or of everything."""

import argparse
import asyncio
import os
import zipfile
from pathlib import Path

from agent.errors import KoreError
from agent.i18n import plural, t
from agent.security.files.folder_tree import TreeWalk
from agent.security.files.safe_open import LISTED, open_folder_beneath
from gateway.cli.folders import data_dir_of
from gateway.cli.output import print_json, size, skipped_files
from gateway.cli.service_link import NotRunning, open_service, settings_to_copy
from gateway.cli.settings import sources_of
from gateway.config import Settings
from gateway.ops.backup_marks import MarkWriter
from gateway.ops.zip_writer import ZipWriter
from gateway.store.opening import copy_unowned
from gateway.store.sqlite.backup import BackupSummary, read_back

DATABASE, WORKSPACE, CHANNELS = "kore.db", "workspace", "channels"
# Parts of a full backup besides the database and the workspace.
CONFIG_FILES = ("config.json", "secrets.json", "trust.json")


def config_files(args: argparse.Namespace) -> dict[str, Path]:
    """Return the path of each file; `--config` and `KORE_CONFIG` may move the configuration."""
    root = data_dir_of(args).root
    return {name: root / name for name in CONFIG_FILES} | {
        CONFIG_FILES[0]: sources_of(args).own_file
    }


def counts_text(summary: BackupSummary) -> str:
    """Return the contents of a backup as text."""
    parts = (
        plural(summary.counts["conversations"], "{n:,} conversation", "{n:,} conversations"),
        plural(summary.counts["messages"], "{n:,} message", "{n:,} messages"),
        t("{n:,} received", n=summary.counts["received"]),
        t("{n:,} sent", n=summary.counts["sent"]),
    )
    return ", ".join(parts)


def run(args: argparse.Namespace) -> int:
    target = (Path.cwd() / args.file.expanduser()).resolve()
    if target.exists():
        raise KoreError(
            t("{path} exists already", path=target), hint=t("choose a file that does not exist")
        )
    if not target.parent.is_dir():
        raise KoreError(t("{path}: no such folder", path=target.parent))
    settings, is_whole = settings_to_copy(args)
    summary, names, missing = asyncio.run(_backup(args, settings, target, is_whole=is_whole))
    copied = target.stat().st_size
    if args.json:
        facts = {"file": str(target), "size_bytes": copied, "schema": summary.schema}
        facts |= {"counts": summary.counts, "sealed": summary.sealed, "with": names}
        print_json({**facts, "left_out": missing})
        return 0
    counts = counts_text(summary)
    print(t("{path}: {size}, verified: {found}", path=target, size=size(copied), found=counts))
    if names:
        print(t("includes {names}; it contains your keys, so keep it safe", names=", ".join(names)))
    else:
        print(t("database only; use FILE.zip to include configuration, secrets and workspace"))
    if missing:
        print(skipped_files(missing))
    if summary.sealed:
        print(
            t(
                "its messages are encrypted: they cannot be read without the key they were "
                "encrypted with"
            )
        )
    return 0


async def _backup(
    args: argparse.Namespace, settings: Settings, target: Path, *, is_whole: bool
) -> tuple[BackupSummary, list[str], int]:
    """Create the backup.

    Without `is_whole`, the settings do not suffice to own the data, so the data is only copied.
    """
    is_zip = target.suffix == ".zip"
    copy = target.with_name(f".{target.name}.db") if is_zip else target
    copy.unlink(missing_ok=True) if is_zip else None
    try:
        try:
            async with open_service(settings, data_dir_of(args), may_own=is_whole) as service:
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
            zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, strict_timestamps=False) as archive,
        ):
            archive.write(copy, DATABASE)
            for name, path in config_files(args).items():
                if path.is_file():
                    archive.write(path, name)
                    names.append(name if path == home.root / name else f"{name} ({path})")
            packing = ZipWriter(archive)
            if home.channels.is_dir():
                _pack_channels(home.channels, packing)
                names.append(CHANNELS)
            # A backup must not include itself.
            own_files = [path.stat() for path in (copy, part)]
            if workspace.is_dir():
                marks = MarkWriter(archive, workspace.resolve())
                without = [(s.st_dev, s.st_ino) for s in own_files]
                _pack_workspace(workspace.resolve(), packing, marks, without)
            names.append(t("{path} (links skipped)", path=workspace))
        with zipfile.ZipFile(part) as archive:
            if (damaged_name := archive.testzip()) is not None:
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
