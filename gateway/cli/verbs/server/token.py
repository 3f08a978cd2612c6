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
            "name": token.name,
            "scopes": sorted(token.scopes),
            "role": token.role,
            "created_at": token.created_at,
            "parent": token.parent,
            "expires_at": token.expires_at,
        }
        for token in tokens.list()
    ]
    if as_json:
        print_json(rows)
        return
    print_table(
        ("name", "scopes", "role", "created", "ends", "let in by"),
        [
            (
                token.name,
                ", ".join(sorted(token.scopes)),
                token.role or "",
                moment(token.created_at),
                "" if token.expires_at is None else moment(token.expires_at),
                "" if token.parent is None else token.parent or "kore web",
            )
            for token in tokens.list()
        ],
    )
