"""`kore policy grants` and `kore policy revoke`: what people allowed for longer than once."""

import argparse
import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from agent.errors import KoreError
from agent.i18n import t
from gateway.cli.output import moment, print_json, print_table
from gateway.cli.service_link import service_of


def _run_grants(args: argparse.Namespace) -> int:
    """0, or `KoreError` for a number that no grant has."""
    asyncio.run(_grants(args))
    return 0


async def _grants(args: argparse.Namespace) -> None:
    async with service_of(args) as service:
        if args.action == "revoke":
            print(await service.take_back(_grant_number(args.id)))
        else:
            _list_grants(await service.grants(), as_json=args.json)


def _grant_number(text: str) -> int | None:
    if text == "all":
        return None
    if not text.isdecimal():
        found = text[:80]
        raise KoreError(
            t("expected the number of a grant or the word all, found {found!r}", found=found),
            hint=t("`kore policy grants` lists them"),
        )
    return int(text)


def _list_grants(grants: Sequence[Mapping[str, Any]], *, as_json: bool) -> None:
    if as_json:
        print_json(grants)
    elif not grants:
        print(t("Nothing is allowed for longer than once."))
    else:
        rows = [
            (
                str(one["id"]),
                one["principal"],
                f"in {one['session']}" if one["session"] else "always",
                moment(one["granted_at"]),
                one["folder"],
                one["title"],
            )
            for one in grants
        ]
        print_table(("id", "person", "holds", "since", "folder", "what"), rows)
