"""`kore replay`: a message that was given up on gets another turn."""

import argparse
import asyncio

from gateway.cli.context import whole
from gateway.cli.service_link import service_of


def add_replay_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("seq", type=whole, metavar="SEQ", help="its number in the inbox")


def run_replay(args: argparse.Namespace) -> int:
    asyncio.run(_replay(args))
    return 0


async def _replay(args: argparse.Namespace) -> None:
    async with service_of(args) as service:
        print(await service.replay(args.seq))
