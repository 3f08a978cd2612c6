"""`kore tools`: what the model can do, under which names, and who may let it."""

import argparse

from gateway.cli.context import settings_of
from gateway.cli.output import print_json, print_table


def add_tools_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    listing = actions.add_parser("list", help="names, aliases, effects, and who may")
    listing.add_argument("--json", action="store_true", help="print JSON")


def run_tools(args: argparse.Namespace) -> int:
    """0. Raises `ConfigError` for a bad configuration or policy file."""
    from agent.settings import ToolSettings
    from agent.tools.registry import default_tools
    from gateway.access.roles import RoleRegistry
    from gateway.turns.tool_listing import beginning, list_tools

    policies = RoleRegistry.of(settings_of(args))
    found = list_tools(default_tools(ToolSettings()), policies)
    if args.json:
        print_json(found)
        return 0
    rows = [
        (
            one["name"],
            one["effect"],
            ", ".join(one["roles"]),
            ", ".join(one["aliases"]),
            beginning(one["description"]),
        )
        for one in found
    ]
    print_table(("name", "effect", "roles that may", "also called", "what it does"), rows)
    return 0
