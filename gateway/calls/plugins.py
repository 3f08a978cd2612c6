"""Calls about plugins and markets.

A `source` is NAME, NAME@MARKET, owner/repository, the address of a git repository or an archive,
npm:NAME, or a path of Kore's machine that begins with / or ~.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ParamSpec, TypeVar

from agent.errors import KoreError
from agent.i18n import t
from gateway.calls.context import ServiceContext
from gateway.config.secret_keys import masked
from gateway.control.declaration import call
from gateway.core.records import PluginChange

P = ParamSpec("P")
T = TypeVar("T")


@call(scope="admin")
async def list_plugins(ctx: ServiceContext) -> Sequence[Mapping[str, Any]]:
    """List the installed plugins and their contents; `rows` are pairs of label and text."""
    return await asyncio.to_thread(ctx.screens.plugins().list_plugins)


@call(scope="admin")
async def look_at_plugin(
    ctx: ServiceContext, source: str, ref: str = "", update: bool = False
) -> Mapping[str, Any]:
    """Fetch a plugin (with `update`, the new version of the installed plugin named `source`) and
    describe it; nothing is installed or run. Pass `review` to `install_plugin`; `options` are the
    plugin's questions, `needs` the requirements to install first. May take minutes."""
    return await _fetch(ctx, ctx.screens.plugins().look_at, source, ref, is_update=update)


@call(scope="admin")
async def install_plugin(
    ctx: ServiceContext,
    source: str,
    review: str,
    answers: Mapping[str, str],
    ref: str = "",
    update: bool = False,
) -> str:
    """Install a plugin if it has not changed since `look_at_plugin`; returns a confirmation.
    `answers` maps the keys of `options` to answers. May take minutes."""
    install, operation = ctx.screens.plugins().install, "update" if update else "install"
    async with ctx.owner_audit.change("plugin", operation, name=_without_login(source)):
        return await _fetch(ctx, install, source, review, answers, ref, is_update=update)


@call(scope="admin")
async def change_plugin(ctx: ServiceContext, name: str, change: PluginChange) -> str:
    """Enable, disable, pin, unpin or remove a plugin; returns a confirmation. A pinned plugin is
    not updated."""
    async with ctx.owner_audit.change("plugin", change, name=name):
        return await asyncio.to_thread(ctx.screens.plugins().change, name, change)


@call(scope="admin")
async def list_markets(ctx: ServiceContext) -> Sequence[Mapping[str, Any]]:
    """List the markets: `name`, `from`, `plugins` (their number), `problems` (by entry)."""
    return await asyncio.to_thread(ctx.screens.plugins().list_markets)


@call(scope="admin")
async def search_plugins(
    ctx: ServiceContext, words: str = "", limit: int = 50
) -> Sequence[Mapping[str, Any]]:
    """Search the entries of all markets, best match first: `name`, `market`, `description`,
    `version`, `pinned`, `installed`, and `problem` if it cannot be used."""
    return await asyncio.to_thread(ctx.screens.plugins().search, words, limit)


@call(scope="admin")
async def add_market(ctx: ServiceContext, source: str, ref: str = "") -> str:
    """Fetch a market and add it; returns a confirmation. May take minutes."""
    async with ctx.owner_audit.change("market", "add", name=_without_login(source)):
        return await _fetch(ctx, ctx.screens.plugins().add_market, source, ref)


@call(scope="admin")
async def update_market(ctx: ServiceContext, name: str) -> str:
    """Fetch the current version of a market; returns a confirmation. May take minutes."""
    async with ctx.owner_audit.change("market", "update", name=name):
        return await _fetch(ctx, ctx.screens.plugins().update_market, name)


@call(scope="admin")
async def remove_market(ctx: ServiceContext, name: str) -> str:
    """Remove a market; its plugins stay installed. Returns a confirmation."""
    async with ctx.owner_audit.change("market", "remove", name=name):
        return await asyncio.to_thread(ctx.screens.plugins().remove_market, name)


async def _fetch(ctx: ServiceContext, act: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run a fetch in a thread, which continues when the call is cancelled."""

    def run() -> T:
        if not ctx.plugin_fetches.acquire(blocking=False):
            raise KoreError(
                t("other plugins or markets are being fetched right now"),
                hint=t("try again when one of them is done"),
            )
        try:
            return act(*args, **kwargs)
        finally:
            ctx.plugin_fetches.release()

    return await asyncio.to_thread(run)


def _without_login(source: str) -> str:
    """Return the source of a plugin without the login that an address may contain."""
    return str(masked(source))
