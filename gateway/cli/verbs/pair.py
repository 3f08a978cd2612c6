"""`kore pair`: who may write to Kore, and who asks to."""

import argparse
import asyncio
from collections.abc import Mapping
from typing import Any

from agent.i18n import t
from gateway.cli.output import moment, print_json, print_table
from gateway.cli.service_link import service_of


def add_pair_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True, metavar="list|approve|revoke")
    listing = actions.add_parser("list", help="who was let in, and who asks to be")
    listing.add_argument("--json", action="store_true", help="print JSON")
    approve = actions.add_parser("approve", help="let somebody in")
    approve.add_argument("code", metavar="CODE", help="the code that they were sent")
    revoke = actions.add_parser("revoke", help="turn somebody out")
    revoke.add_argument("id", metavar="ID", help="as the list shows it, such as telegram:123")


def run_pair(args: argparse.Namespace) -> int:
    asyncio.run(_pair(args))
    return 0


async def _pair(args: argparse.Namespace) -> None:
    async with service_of(args) as service:
        if args.action == "approve":
            print(await service.approve(args.code))
        elif args.action == "revoke":
            print(await service.revoke(args.id))
        else:
            _list_people(await service.people(), as_json=args.json)


def _list_people(people: Mapping[str, Any], *, as_json: bool) -> None:
    if as_json:
        print_json(people)
        return
    if people["owner"] is None:
        print(t("Nobody is the owner yet; the first one who is approved will be."))
    rows = [
        (
            one["id"],
            one["account"],
            "asks",
            t("since {moment}", moment=moment(one["asked_at"])),
            one["name"],
        )
        for one in people["asking"]
    ]
    rows += [
        (
            one["id"],
            one["account"],
            "owner" if one["owner"] else "paired",
            t("since {moment}", moment=moment(one["approved_at"])),
            one["name"],
        )
        for one in people["paired"]
    ]
    if rows:
        print_table(("id", "account", "is", "when", "name"), rows)
    else:
        print(t("Nobody asks, and nobody is paired."))
