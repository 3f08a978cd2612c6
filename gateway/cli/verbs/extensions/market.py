"""Command `kore market`: add, search, update and create lists of plugins."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from agent.errors import KoreError
from agent.i18n import mark_for_translation, plural, t
from gateway.cli.context import data_dir_of, record_change
from gateway.cli.output import clean, print_json
from gateway.cli.verbs.extensions.listing import print_list, short

if TYPE_CHECKING:
    from gateway.plugins.market import Market, MarketEntry, Markets

_MOST_ROWS = 40


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    adding = actions.add_parser("add", help="add a market: a folder, git or an archive")
    adding.add_argument("source", metavar="SOURCE", help="a folder, owner/repository, git, archive")
    adding.add_argument("--ref", metavar="REF", help="commit, tag or branch")
    listing = actions.add_parser("list", help="list the markets")
    searching = actions.add_parser("search", help="search the plugins of all markets")
    searching.add_argument("words", nargs="*", metavar="WORD", help="(default: all plugins)")
    updating = actions.add_parser("update", help="fetch the markets again")
    updating.add_argument("name", nargs="?", metavar="NAME", help="(default: all markets)")
    removing = actions.add_parser("remove", help="forget a market; its plugins stay")
    removing.add_argument("name", metavar="NAME")
    index = actions.add_parser("index", help="make the index of a folder of plugins")
    index.add_argument("folder", type=Path, metavar="FOLDER")
    index.add_argument("--name", required=True, metavar="NAME", help="of the market")
    for part in (adding, listing, searching):
        part.add_argument("--json", action="store_true", help="print JSON")


def run(args: argparse.Namespace) -> int:
    """Return 0. Raises `KoreError`."""
    from gateway.plugins.market import Markets

    markets = Markets(data_dir_of(args).plugins)
    actions = {
        "add": _add,
        "list": _list,
        "search": _search,
        "update": _update,
        "remove": _remove,
        "index": _index,
    }
    return actions[args.action](args, markets)


def _add(args: argparse.Namespace, markets: "Markets") -> int:
    from gateway.plugins.page import market_facts
    from gateway.plugins.sources import source_of

    market = markets.add(source_of(args.source, args.ref))
    record_change(args, "market", market.name)
    if args.json:
        print_json(market_facts(market))
    else:
        _say_added(market)
    return 0


def _say_added(market: "Market") -> None:
    print(
        plural(
            len(market.entries),
            "{name}: {n:,} plugin",
            "{name}: {n:,} plugins",
            name=clean(market.name),
        )
    )


def _list(args: argparse.Namespace, markets: "Markets") -> int:
    from gateway.plugins.page import market_facts
    from gateway.plugins.sources import describe

    print_list(
        args,
        markets.load(),
        market_facts,
        {
            "name": lambda one: one.name,
            mark_for_translation("plugins"): lambda one: str(len(one.entries)),
            "from": lambda one: describe(one.source),
        },
        t("no markets; `kore market add SOURCE` adds one"),
    )
    return 0


def _search(args: argparse.Namespace, markets: "Markets") -> int:
    from gateway.plugins.page import entry_facts

    entries = markets.search(" ".join(args.words))
    if not entries and not args.json:
        is_empty = not markets.load()
        raise KoreError(
            t("there is no market yet") if is_empty else t("no market has a plugin like that"),
            hint=t("`kore market add SOURCE` adds one")
            if is_empty
            else t("`kore market list` shows the markets"),
        )
    print_list(
        args,
        entries if args.json else entries[:_MOST_ROWS],
        entry_facts,
        {
            "name": lambda one: one.name,
            mark_for_translation("market"): lambda one: one.market,
            "pinned": lambda one: one.problem or _pinned(one),
            "description": lambda one: short(one.description),
        },
        "",
    )
    if not args.json and (more := len(entries) - _MOST_ROWS) > 0:
        print(plural(more, "and {n:,} more", "and {n:,} more"))
    return 0


def _pinned(entry: "MarketEntry") -> str:
    from gateway.plugins.sources import is_pinned

    return t("yes") if is_pinned(entry.source) else t("no")


def _update(args: argparse.Namespace, markets: "Markets") -> int:
    names = [args.name] if args.name else [one.name for one in markets.load()]
    for name in names:
        _say_added(markets.update(name))
        record_change(args, "market", name)
    return 0


def _remove(args: argparse.Namespace, markets: "Markets") -> int:
    markets.remove(args.name)
    record_change(args, "market", args.name)
    print(t("removed: {name}", name=args.name))
    return 0


def _index(args: argparse.Namespace, markets: "Markets") -> int:
    from gateway.plugins.market import make_index

    print(make_index(args.folder, args.name))
    return 0
