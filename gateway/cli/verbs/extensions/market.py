"""Command `kore market`: add, search, update and create lists of plugins."""

import argparse

from agent.errors import KoreError
from agent.i18n import mark_for_translation, plural, t
from gateway.cli.change_note import record_change
from gateway.cli.folders import data_dir_of
from gateway.cli.output import clean, print_json, print_list, short
from gateway.plugins.market import Market, MarketEntry, Markets, make_index
from gateway.plugins.page import entry_facts, market_facts
from gateway.plugins.sources import describe, is_pinned, source_of

_MAX_ROWS = 40


def run(args: argparse.Namespace) -> int:
    """Return 0. Raises `KoreError`."""
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


def _add(args: argparse.Namespace, markets: Markets) -> int:
    market = markets.add(source_of(args.source, args.ref))
    record_change(args, "market", market.name)
    if args.json:
        print_json(market_facts(market))
    else:
        _print_added(market)
    return 0


def _print_added(market: Market) -> None:
    print(
        plural(
            len(market.entries),
            "{name}: {n:,} plugin",
            "{name}: {n:,} plugins",
            name=clean(market.name),
        )
    )


def _list(args: argparse.Namespace, markets: Markets) -> int:
    print_list(
        args,
        markets.load(),
        market_facts,
        {
            "name": lambda item: item.name,
            mark_for_translation("plugins"): lambda item: str(len(item.entries)),
            "from": lambda item: describe(item.source),
        },
        t("no markets; `kore market add SOURCE` adds one"),
    )
    return 0


def _search(args: argparse.Namespace, markets: Markets) -> int:
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
        entries if args.json else entries[:_MAX_ROWS],
        entry_facts,
        {
            "name": lambda item: item.name,
            mark_for_translation("market"): lambda item: item.market,
            "pinned": lambda item: item.problem or _pinned(item),
            "description": lambda item: short(item.description),
        },
        "",
    )
    if not args.json and (more := len(entries) - _MAX_ROWS) > 0:
        print(plural(more, "and {n:,} more", "and {n:,} more"))
    return 0


def _pinned(entry: MarketEntry) -> str:
    return t("yes") if is_pinned(entry.source) else t("no")


def _update(args: argparse.Namespace, markets: Markets) -> int:
    names = [args.name] if args.name else [item.name for item in markets.load()]
    for name in names:
        _print_added(markets.update(name))
        record_change(args, "market", name)
    return 0


def _remove(args: argparse.Namespace, markets: Markets) -> int:
    markets.remove(args.name)
    record_change(args, "market", args.name)
    print(t("removed: {name}", name=args.name))
    return 0


def _index(args: argparse.Namespace, markets: Markets) -> int:
    print(make_index(args.folder, args.name))
    return 0
