"""Commands `kore reload` and `kore replay` for the running service."""

import argparse
import asyncio
from collections.abc import Mapping
from typing import Any

from agent.errors import ConfigError
from agent.i18n import t
from gateway.cli.folders import data_dir_of
from gateway.cli.output import print_json
from gateway.cli.service_link import NotRunning, service_of
from gateway.control.client import ControlClient


def run_reload(args: argparse.Namespace) -> int:
    try:
        outcome = asyncio.run(_reload(args))
    except ConfigError as exc:
        if not args.json:
            raise
        print_json({"changed": [], "waiting": [], "errors": str(exc).splitlines()})
        return 2
    if args.json:
        print_json({**outcome, "errors": []})
        return 0
    print(t("changed: {names}", names=", ".join(outcome["changed"]) or t("nothing")))
    if outcome["waiting"]:
        print(t("needs a restart: {names}", names=", ".join(outcome["waiting"])))
    return 0


async def _reload(args: argparse.Namespace) -> Mapping[str, Any]:

    # Do not load the settings, because the files may be invalid.
    client = await ControlClient.connect(data_dir_of(args).socket)
    if client is None:
        raise NotRunning(t("Kore is not running"), hint=t("start it with `kore gateway`"))
    return await client.reload()


def run_replay(args: argparse.Namespace) -> int:
    asyncio.run(_replay(args))
    return 0


async def _replay(args: argparse.Namespace) -> None:
    async with service_of(args) as service:
        print(await service.replay(args.seq))
