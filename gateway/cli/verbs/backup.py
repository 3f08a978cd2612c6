"""`kore backup`: a copy that is whole, even while the database is in use, and read back."""

import argparse
import asyncio
import os
from pathlib import Path
from typing import TYPE_CHECKING

from agent.errors import KoreError
from agent.i18n import plural, t
from agent.security.files.folder_tree import TreeWalk
from agent.security.files.safe_open import LISTED, open_folder_beneath
from gateway.cli.context import data_dir_of
from gateway.cli.output import print_json, size
from gateway.cli.service_link import NotRunning, open_service, settings_to_copy

if TYPE_CHECKING:
    from gateway.config import Settings
    from gateway.ops.zip_writer import ZipWriter
    from gateway.store.sqlite.backup import BackupSummary

DATABASE, WORKSPACE = "kore.db", "workspace"
# What belongs to a whole Kore besides the database and the workspace.
BESIDE = ("config.json", "secrets.json", "trust.json")


def beside(args: argparse.Namespace) -> dict[str, Path]:
    """Where each of them lies: `--config` and `KORE_CONFIG` may name another configuration."""
    from gateway.cli.verbs.config import sources_of

    root = data_dir_of(args).root
    return {name: root / name for name in BESIDE} | {BESIDE[0]: sources_of(args).own}


def add_backup_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "file",
        type=Path,
        metavar="FILE",
        help="the copy; a name with .zip takes configuration, secrets and workspace along",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")


def run_backup(args: argparse.Namespace) -> int:
    target = (Path.cwd() / args.file.expanduser()).resolve()
    if target.exists():
        raise KoreError(
            t("{path} exists already", path=target), hint=t("name a file that does not")
        )
    if not target.parent.is_dir():
        raise KoreError(t("{path}: no such folder", path=target.parent))
    settings, is_whole = settings_to_copy(args)
    found, names, missing = asyncio.run(_backup(args, settings, target, own=is_whole))
    copied = target.stat().st_size
    if args.json:
        facts = {"file": str(target), "size_bytes": copied, "schema": found.schema}
        facts |= {"counts": found.counts, "sealed": found.sealed, "with": names}
        print_json({**facts, "left_out": missing})
        return 0
    print(
        t("{path}: {size}, read back: {found}", path=target, size=size(copied), found=found.words)
    )
    if names:
        print(t("with {names}; it holds your keys: keep it safe", names=", ".join(names)))
    else:
        print(t("the database alone; FILE.zip takes configuration, secrets and workspace along"))
    if missing:
        print(left_out(missing))
    if found.sealed:
        print(t("its texts are sealed: without the key that it was made with nobody can read it"))
    return 0


def left_out(count: int) -> str:
    return plural(
        count,
        "left out: {n:,} file or folder that lies too deep, has no readable name or cannot be"
        " opened",
        "left out: {n:,} files or folders that lie too deep, have no readable name or cannot be"
        " opened",
    )


async def _backup(
    args: argparse.Namespace, settings: "Settings", target: Path, *, own: bool
) -> tuple["BackupSummary", list[str], int]:
    """Without `own` the settings are not good enough to own the data: the file is copied."""
    from gateway.store.sqlite.backup import read_back, take

    whole = target.suffix == ".zip"
    copy = target.with_name(f".{target.name}.db") if whole else target
    copy.unlink(missing_ok=True) if whole else None
    try:
        try:
            async with open_service(settings, data_dir_of(args), own=own) as service:
                await service.backup(copy)
        except NotRunning:
            await asyncio.to_thread(take, settings.store.path, copy)
        found = await asyncio.to_thread(read_back, copy)
        if not whole:
            return found, [], 0
        names, missing = await asyncio.to_thread(_pack, args, settings, copy, target)
    finally:
        if whole:
            copy.unlink(missing_ok=True)
    return found, names, missing


def _pack(
    args: argparse.Namespace, settings: "Settings", copy: Path, target: Path
) -> tuple[list[str], int]:
    """The zip file, read back as well; the names of what is in it besides the database, and how
    many files of the workspace are not."""
    import zipfile

    from gateway.ops.zip_writer import ZipWriter

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
            for name, path in beside(args).items():
                if path.is_file():
                    packed.write(path, name)
                    names.append(name if path == home.root / name else f"{name} ({path})")
            packing = ZipWriter(packed)
            # A backup that holds itself has no end.
            own = [path.stat() for path in (copy, part)]
            if workspace.is_dir():
                _pack_workspace(workspace.resolve(), packing, [(s.st_dev, s.st_ino) for s in own])
            names.append(t("{path} (links left out)", path=workspace))
        with zipfile.ZipFile(part) as packed:
            if (broken := packed.testzip()) is not None:
                raise KoreError(f"the backup did not verify: {broken} is damaged in it")
        part.rename(target)
    except OSError as exc:
        raise KoreError(f"{target} cannot be written: {exc.strerror or exc}") from exc
    finally:
        part.unlink(missing_ok=True)
    return names, packing.left_out


def _pack_workspace(workspace: Path, packing: "ZipWriter", without: list[tuple[int, int]]) -> None:
    """Its files but those `without`, by device and inode. Links lead elsewhere, and what they lead
    to is not part of it."""
    with open_folder_beneath(workspace, flags=LISTED) as root:
        walk = TreeWalk(root)
        for member in walk:
            if member.is_file and (member.info.st_dev, member.info.st_ino) not in without:
                packing.add(member, WORKSPACE)
        packing.left_out += walk.left_out
