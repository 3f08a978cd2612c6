"""`kore backup`: a copy of the database that is whole, even while it is in use."""

import argparse
import asyncio
from pathlib import Path

from agent.errors import KoreError
from gateway.cli.basis import home_of, settings_of
from gateway.cli.link import open_service
from gateway.cli.table import print_json, size


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", type=Path, metavar="FILE", help="the copy; it must not exist yet")
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(args: argparse.Namespace) -> int:
    target = (Path.cwd() / args.file.expanduser()).resolve()
    if target.exists():
        raise KoreError(f"{target} exists already", hint="name a file that does not")
    if not target.parent.is_dir():
        raise KoreError(f"{target.parent}: no such folder")
    copied = asyncio.run(_backup(args, target))
    if args.json:
        print_json({"file": str(target), "size_bytes": copied})
    else:
        print(f"{target}: {size(copied)}")
    return 0


async def _backup(args: argparse.Namespace, target: Path) -> int:
    async with open_service(settings_of(args), home_of(args)) as service:
        return await service.backup(target)
