"""`kore replay`: a message that was given up on gets another turn."""

import argparse
import asyncio

from gateway.cli.basis import home_of, settings_of, whole
from gateway.cli.link import open_service


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("seq", type=whole, metavar="SEQ", help="its number in the inbox")


def run(args: argparse.Namespace) -> int:
    asyncio.run(_replay(args))
    return 0


async def _replay(args: argparse.Namespace) -> None:
    async with open_service(settings_of(args), home_of(args)) as service:
        print(await service.replay(args.seq))
