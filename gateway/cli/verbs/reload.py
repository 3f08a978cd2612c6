"""`kore reload`: the running gateway reads its configuration again, now."""

import argparse
import asyncio
from collections.abc import Mapping
from typing import Any

from agent.errors import ConfigError
from agent.i18n import t
from gateway.cli.context import data_dir_of
from gateway.cli.output import print_json


def add_reload_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON")


def run_reload(args: argparse.Namespace) -> int:
    try:
        found = asyncio.run(_reload(args))
    except ConfigError as exc:
        if not args.json:
            raise
        print_json({"changed": [], "waiting": [], "errors": str(exc).splitlines()})
        return 2
    if args.json:
        print_json({**found, "errors": []})
        return 0
    print(t("changed: {names}", names=", ".join(found["changed"]) or t("nothing")))
    if found["waiting"]:
        print(t("needs a restart: {names}", names=", ".join(found["waiting"])))
    return 0


async def _reload(args: argparse.Namespace) -> Mapping[str, Any]:
    from gateway.cli.service_link import NotRunning
    from gateway.control.client import ControlClient

    # Without the settings: what the files say now may be just what is wrong.
    client = await ControlClient.connect(data_dir_of(args).socket)
    if client is None:
        raise NotRunning(t("Kore is not running"), hint=t("`kore gateway` starts it"))
    return await client.reload()
