"""The calls about plugins and markets, for the process that owns the data."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from threading import BoundedSemaphore
from typing import Any, ParamSpec, Protocol, TypeVar

from agent.errors import KoreError
from agent.i18n import t
from gateway.config.secret_keys import masked
from gateway.control.services.owner_audit import OwnerAudit
from gateway.core.records import PluginChange

P = ParamSpec("P")
T = TypeVar("T")

# Each takes a thread for minutes, also when the one who asked has left.
_MOST_FETCHES = 2


class PluginData(Protocol):
    """Plugins and markets of one Kore."""

    def list_plugins(self) -> Sequence[Mapping[str, Any]]: ...

    def look_at(self, source: str, ref: str, *, is_update: bool) -> Mapping[str, Any]: ...

    def install(
        self, source: str, review: str, answers: Mapping[str, str], ref: str, *, is_update: bool
    ) -> str: ...

    def change(self, name: str, change: PluginChange) -> str: ...

    def list_markets(self) -> Sequence[Mapping[str, Any]]: ...

    def search(self, words: str, limit: int) -> Sequence[Mapping[str, Any]]: ...

    def add_market(self, source: str, ref: str) -> str: ...

    def update_market(self, name: str) -> str: ...

    def remove_market(self, name: str) -> str: ...


class PluginService:
    """Implements `screen_calls.PluginCalls`, on data that is opened for each call."""

    def __init__(self, open_plugins: Callable[[], PluginData], audit: OwnerAudit) -> None:
        self._open_plugins = open_plugins
        self._plugin_audit = audit
        self._fetches = BoundedSemaphore(_MOST_FETCHES)

    async def list_plugins(self) -> Sequence[Mapping[str, Any]]:
        return await asyncio.to_thread(self._open_plugins().list_plugins)

    async def look_at_plugin(
        self, source: str, ref: str = "", update: bool = False
    ) -> Mapping[str, Any]:
        return await self._fetch(self._open_plugins().look_at, source, ref, is_update=update)

    async def install_plugin(
        self,
        source: str,
        review: str,
        answers: Mapping[str, str],
        ref: str = "",
        update: bool = False,
    ) -> str:
        install, operation = self._open_plugins().install, "update" if update else "install"
        async with self._plugin_audit.change("plugin", operation, name=_public(source)):
            return await self._fetch(install, source, review, answers, ref, is_update=update)

    async def change_plugin(self, name: str, change: PluginChange) -> str:
        async with self._plugin_audit.change("plugin", change, name=name):
            return await asyncio.to_thread(self._open_plugins().change, name, change)

    async def list_markets(self) -> Sequence[Mapping[str, Any]]:
        return await asyncio.to_thread(self._open_plugins().list_markets)

    async def search_plugins(self, words: str = "", limit: int = 50) -> Sequence[Mapping[str, Any]]:
        return await asyncio.to_thread(self._open_plugins().search, words, limit)

    async def add_market(self, source: str, ref: str = "") -> str:
        async with self._plugin_audit.change("market", "add", name=_public(source)):
            return await self._fetch(self._open_plugins().add_market, source, ref)

    async def update_market(self, name: str) -> str:
        async with self._plugin_audit.change("market", "update", name=name):
            return await self._fetch(self._open_plugins().update_market, name)

    async def remove_market(self, name: str) -> str:
        async with self._plugin_audit.change("market", "remove", name=name):
            return await asyncio.to_thread(self._open_plugins().remove_market, name)

    async def _fetch(self, act: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """In a thread, which goes on when the call is given up."""

        def run() -> T:
            if not self._fetches.acquire(blocking=False):
                raise KoreError(
                    t("other plugins or markets are being fetched right now"),
                    hint=t("try again when one of them is done"),
                )
            try:
                return act(*args, **kwargs)
            finally:
                self._fetches.release()

        return await asyncio.to_thread(run)


def _public(source: str) -> str:
    """The source of a plugin without what an address may hold of a login."""
    return str(masked(source))
