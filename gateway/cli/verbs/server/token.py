"""Command `kore token`: access tokens of the server."""

import argparse

from agent.i18n import t
from gateway.access.roles import RoleRegistry
from gateway.cli.folders import data_dir_of
from gateway.cli.output import moment, print_json, print_table, tell
from gateway.cli.settings import settings_of
from gateway.server.tokens import TokenFile


def run(args: argparse.Namespace) -> int:
    """Run the action. Raises `KoreError`."""
    home = data_dir_of(args)
    tokens = TokenFile(home.tokens)
    match args.action:
        case "add":
            home.ensure()
            if args.role is not None:
                RoleRegistry.of(settings_of(args)).check(args.role, "--role")
            print(tokens.add(args.name, args.scope or ("chat",), args.role))
            tell(t("This is shown once. Clients send it as: Authorization: Bearer TOKEN"))
        case "list":
            _list(tokens, as_json=args.json)
        case "revoke":
            tokens.revoke(args.name)
            tell(t("Revoked: {name}.", name=args.name))
    return 0


def _list(tokens: TokenFile, *, as_json: bool) -> None:
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
