"""Command `kore token`: access tokens of the server."""

import argparse
from typing import TYPE_CHECKING

from agent.i18n import t
from gateway.cli.context import data_dir_of, settings_of
from gateway.cli.output import moment, print_json, print_table, tell

if TYPE_CHECKING:
    from gateway.server.tokens import TokenFile

_SCOPES = ("read", "chat", "approve", "admin")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    adding = actions.add_parser("add", help="make a token; it is shown once")
    adding.add_argument("name", metavar="NAME", help="whom or what it is for")
    adding.add_argument(
        "--scope",
        action="append",
        choices=_SCOPES,
        help="what it may do; may be given several times (default: chat)",
    )
    adding.add_argument(
        "--role",
        metavar="ROLE",
        help="a person of its own with this role, who can only talk with Kore",
    )
    listing = actions.add_parser("list", help="list the tokens, without their secrets")
    listing.add_argument("--json", action="store_true", help="print JSON")
    revoking = actions.add_parser("revoke", help="revoke a token at once")
    revoking.add_argument("name", metavar="NAME")


def run(args: argparse.Namespace) -> int:
    """Run the action. Raises `KoreError`."""
    from gateway.server.tokens import TokenFile

    home = data_dir_of(args)
    tokens = TokenFile(home.tokens)
    match args.action:
        case "add":
            home.ensure()
            if args.role is not None:
                from gateway.access.roles import RoleRegistry

                RoleRegistry.of(settings_of(args)).check(args.role, "--role")
            print(tokens.add(args.name, args.scope or ("chat",), args.role))
            tell(t("This is shown once. Clients send it as: Authorization: Bearer TOKEN"))
        case "list":
            _list(tokens, as_json=args.json)
        case "revoke":
            tokens.revoke(args.name)
            tell(t("Revoked: {name}.", name=args.name))
    return 0


def _list(tokens: "TokenFile", *, as_json: bool) -> None:
    rows = [
        {
            "name": one.name,
            "scopes": sorted(one.scopes),
            "role": one.role,
            "created_at": one.created_at,
            "parent": one.parent,
            "expires_at": one.expires_at,
        }
        for one in tokens.list()
    ]
    if as_json:
        print_json(rows)
        return
    print_table(
        ("name", "scopes", "role", "created", "ends", "let in by"),
        [
            (
                one.name,
                ", ".join(sorted(one.scopes)),
                one.role or "",
                moment(one.created_at),
                "" if one.expires_at is None else moment(one.expires_at),
                "" if one.parent is None else one.parent or "kore web",
            )
            for one in tokens.list()
        ],
    )
