"""`kore backup`: a copy that is whole, even while the database is in use, and read back."""

import argparse
import asyncio
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from agent.errors import KoreError
from agent.language import t
from gateway.cli.basis import home_of
from gateway.cli.link import NotRunning, open_service, settings_to_copy
from gateway.cli.table import print_json, size

if TYPE_CHECKING:
    from gateway.settings import Settings
    from gateway.store.copy import Contents

DATABASE, WORKSPACE = "kore.db", "workspace"
# What belongs to a whole Kore besides the database and the workspace.
BESIDE = ("config.json", "secrets.json", "trust.json")


def beside(args: argparse.Namespace) -> dict[str, Path]:
    """Where each of them lies: `--config` and `KORE_CONFIG` may name another configuration."""
    from gateway.cli.config import sources_of

    root = home_of(args).root
    return {name: root / name for name in BESIDE} | {BESIDE[0]: sources_of(args).own}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "file",
        type=Path,
        metavar="FILE",
        help="the copy; a name with .zip takes configuration, secrets and workspace along",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(args: argparse.Namespace) -> int:
    target = (Path.cwd() / args.file.expanduser()).resolve()
    if target.exists():
        raise KoreError(
            t("{path} exists already", path=target), hint=t("name a file that does not")
        )
    if not target.parent.is_dir():
        raise KoreError(t("{path}: no such folder", path=target.parent))
    settings, is_whole = settings_to_copy(args)
    found, names = asyncio.run(_backup(args, settings, target, own=is_whole))
    copied = target.stat().st_size
    if args.json:
        facts = {"file": str(target), "size_bytes": copied, "schema": found.schema}
        print_json({**facts, "counts": found.counts, "sealed": found.sealed, "with": names})
        return 0
    print(
        t("{path}: {size}, read back: {found}", path=target, size=size(copied), found=found.words)
    )
    if names:
        print(t("with {names}; it holds your keys: keep it safe", names=", ".join(names)))
    else:
        print(t("the database alone; FILE.zip takes configuration, secrets and workspace along"))
    if found.sealed:
        print(t("its texts are sealed: without the key that it was made with nobody can read it"))
    return 0


async def _backup(
    args: argparse.Namespace, settings: "Settings", target: Path, *, own: bool
) -> tuple["Contents", list[str]]:
    """Without `own` the settings are not good enough to own the data: the file is copied."""
    from gateway.store.copy import read_back, take

    whole = target.suffix == ".zip"
    copy = target.with_name(f".{target.name}.db") if whole else target
    copy.unlink(missing_ok=True) if whole else None
    try:
        try:
            async with open_service(settings, home_of(args), own=own) as service:
                await service.backup(copy)
        except NotRunning:
            await asyncio.to_thread(take, settings.store.path, copy)
        found = await asyncio.to_thread(read_back, copy)
        if not whole:
            return found, []
        names = await asyncio.to_thread(_pack, args, settings, copy, target)
    finally:
        if whole:
            copy.unlink(missing_ok=True)
    return found, names


def _pack(args: argparse.Namespace, settings: "Settings", copy: Path, target: Path) -> list[str]:
    """The zip file, read back as well; the names of what is in it besides the database."""
    import zipfile

    home, workspace = home_of(args), settings.agent.workspace
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
            for path in _below(workspace, (copy, part)):
                packed.write(path, f"{WORKSPACE}/{path.relative_to(workspace)}")
            names.append(t("{path} (links left out)", path=workspace))
        with zipfile.ZipFile(part) as packed:
            if (broken := packed.testzip()) is not None:
                raise KoreError(f"the backup did not verify: {broken} is damaged in it")
        part.rename(target)
    except OSError as exc:
        raise KoreError(f"{target} cannot be written: {exc.strerror or exc}") from exc
    finally:
        part.unlink(missing_ok=True)
    return names


def _below(workspace: Path, without: Sequence[Path]) -> Iterator[Path]:
    """Its files `without` those that the backup is made of: one that holds itself has no end.
    Links lead elsewhere, and what they lead to is not part of it."""
    root = workspace.resolve()
    without = [path.relative_to(root) for path in without if path.is_relative_to(root)]
    for folder, folders, files in os.walk(workspace):
        folders.sort()
        for name in sorted(files):
            path = Path(folder, name)
            own = path.relative_to(workspace) in without
            if path.is_file() and not path.is_symlink() and not own:
                yield path
