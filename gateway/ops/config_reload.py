"""Reload of the configuration while the gateway runs; after errors, the last valid one remains in
use.
"""

import asyncio
import hashlib
import logging
import os
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from agent.agent import Agent
from agent.errors import ConfigError, KoreError
from agent.i18n import ENGLISH, mark_for_translation, t, use_locale
from agent.providers.pool import ModelPool
from agent.records import frozen
from agent.security.redaction import Redactor
from gateway.access.approvals import ApprovalService
from gateway.access.control import AccessControl
from gateway.access.roles import RoleRegistry
from gateway.bus.bus import MessageBus
from gateway.channels.base import Channel
from gateway.channels.table import allowed_senders, owner_of
from gateway.config import Settings
from gateway.config.atomic_write import write_atomic
from gateway.config.diff import ConfigDiff, update
from gateway.config.json_files.document import read_text
from gateway.config.load import Sources
from gateway.core.messages import Route
from gateway.delivery.renderer import ReplyRenderer
from gateway.delivery.sender import OutboxSender, wait_for
from gateway.delivery.user_language import UserLanguages
from gateway.ops.config_check import check_usable
from gateway.runtime.paths import DataDir
from gateway.store.errors import StoreError
from gateway.store.port import Store, Transaction
from gateway.store.repositories.delivery import outbox
from gateway.store.repositories.delivery.chats import private_route
from gateway.store.repositories.delivery.outbox import OutgoingReply
from gateway.turns.agents.factory import build_agent
from gateway.turns.usage.meter import StoreUsageMeter


@frozen
class ReloadTargets:
    """Parts of the gateway that use the configuration.

    Some read it when a turn begins and change with the next turn; others (roles, limits, who may
    write) read it at every call and change at once.
    """

    agent: Agent
    policies: RoleRegistry
    access: AccessControl
    usage: StoreUsageMeter
    sender: OutboxSender
    renderer: ReplyRenderer
    languages: UserLanguages
    approvals: ApprovalService
    channels: Mapping[tuple[str, str], Channel]
    redactor: Redactor
    bus: MessageBus

    def apply(self, settings: Settings, agent: Agent, policies: RoleRegistry) -> ModelPool | None:
        """Apply these settings, with a matching `agent` and `policies`.

        Without any await, so that no task sees a partial change. Returns the previous models if
        they were replaced: running turns may still use them.
        """
        access = self.access
        access.owner = owner_of(settings)
        access.allow = allowed_senders(settings, self.channels)
        access.roles = settings.access.roles
        self.policies.replace_with(policies)
        self.usage.limits = settings.limits
        self.usage.subagent_max_cost_usd = settings.subagents.max_cost_usd
        self.approvals.expires_s = settings.security.approval_timeout_s
        self.languages.configure(settings.agent.language)
        self.redactor.learn(agent.settings.secrets | agent.models.keys())
        for account, allowed in access.allow.items():
            if "*" in allowed:
                log.warning('%s: allow_from is ["*"]: anyone can use this bot', ":".join(account))
        return self.agent.reconfigure(agent)


log = logging.getLogger(__name__)

POLL_INTERVAL_S = 2.0

# A recently changed file may still be written to.
QUIET_INTERVAL_S = 0.3

# Minimum time during which running work may still use its initial models.
RETIREMENT_INTERVAL_S = 3600.0

_NOT_RIGHT = mark_for_translation("⚠️ config.json has an error; still using the previous settings.")

_RIGHT_AGAIN = mark_for_translation("Configuration fixed and reloaded.")

Stamp = tuple[tuple[int, int, int, int] | None, ...]


@frozen
class WatchedConfig:
    """Files to reload when they change.

    `on_reload` receives every accepted configuration, for parts outside of the targets, such as the
    log. With `notifies_owner`, the owner's chat gets errors.
    """

    sources: Sources
    on_reload: Callable[[Settings], None] = lambda settings: None
    notifies_owner: bool = True


class ConfigReloader:
    """Reloader of the configuration: `run` watches the files, and `ask` triggers a check."""

    def __init__(
        self,
        *,
        targets: ReloadTargets,
        database: Store,
        home: DataDir,
        config: WatchedConfig,
        settings: Settings,
    ) -> None:
        self.settings = settings
        self._targets = targets
        self._database = database
        self._home = home
        self._sources = config.sources
        self._on_reload = config.on_reload
        self._notifies_owner = config.notifies_owner
        self._stamp = self._read_stamp()
        self._reload_requested = asyncio.Event()
        self._lock = asyncio.Lock()
        self._read_at = time.time()
        self._problem: str | None = None
        self._restart_keys: tuple[str, ...] = ()
        self._retired_models: list[tuple[float, ModelPool]] = []

    def ask(self) -> None:
        """Request a reload, even of unchanged files."""
        self._reload_requested.set()

    async def run(self) -> None:
        """Watch the files until cancelled."""
        await asyncio.to_thread(self._keep)
        try:
            while True:
                await wait_for(self._reload_requested, POLL_INTERVAL_S)
                if self._reload_requested.is_set() or self._read_stamp() != self._stamp:
                    self._reload_requested.clear()
                    await self._settle()
                    with suppress(ConfigError):  # reported in the log, the status and to the owner
                        await self.reload()
                await self._close_retired_models()
        finally:
            for _, models in self._retired_models:
                await models.aclose()

    async def reload(self) -> Mapping[str, Any]:
        """Load the files; return the `changed` keys and those `waiting` for a restart.

        Raises `ConfigError`; then the last valid configuration stays in use.
        """
        async with self._lock:
            self._stamp = self._read_stamp()
            try:
                diff = await self._take()
            except ConfigError as exc:
                await self._refuse(exc)
                raise ConfigError(
                    str(exc), hint=t("still using the last valid configuration")
                ) from exc
            self._read_at, has_recovered = time.time(), self._problem is not None
            self._problem = None
            if diff.changed_keys or diff.restart_keys != self._restart_keys:
                changed, waiting = ", ".join(diff.changed_keys), ", ".join(diff.restart_keys)
                log.info(
                    "configuration reloaded: %s%s",
                    f"changed: {changed}" if changed else "nothing to apply now",
                    f"; needs a restart: {waiting}" if waiting else "",
                )
            self._restart_keys = diff.restart_keys
            if has_recovered:
                log.info("configuration fixed and reloaded")
                await self._notify_owner(_RIGHT_AGAIN)
            await asyncio.to_thread(self._keep)
            return {"changed": list(diff.changed_keys), "waiting": list(diff.restart_keys)}

    def facts(self) -> dict[str, Any]:
        """Return the facts for the status."""
        return {
            "read_at": self._read_at,
            "problem": self._problem,
            "needs_restart": ", ".join(self._restart_keys) or None,
        }

    async def _take(self) -> ConfigDiff:
        diff = await asyncio.to_thread(self._read)
        settings = diff.settings
        sandbox = self._targets.agent.settings.tools.sandbox
        assert sandbox is not None, "a gateway has one, if only in name"
        agent = await build_agent(settings, self._home, sandbox)
        old = self._targets.apply(settings, agent, RoleRegistry.of(settings))
        if old is not None:
            self._retired_models.append((time.monotonic(), old))
        self.settings = settings
        self._on_reload(settings)
        return diff

    def _read(self) -> ConfigDiff:
        """Load and compare the settings. Raises `ConfigError` in the current language."""
        diff = update(self.settings, self._sources.load())
        check_usable(diff.settings, os.environ)
        return diff

    async def _refuse(self, error: ConfigError) -> None:
        """Report an error once for all callers.

        The log and the status get it in English, the owner in their language.
        """
        problem = await self._error_text(error, ENGLISH)
        if problem == self._problem:
            return
        self._problem = problem
        log.error("still using the last valid configuration: %s", _short(problem, ENGLISH))
        await self._notify_owner(_NOT_RIGHT, error)

    async def _error_text(self, error: ConfigError, language: str) -> str:
        """Return the error in this language, by loading the files again if they still fail."""
        with use_locale(language):
            try:
                await asyncio.to_thread(self._read)
            except ConfigError as exc:
                return str(exc)
        return str(error)

    async def _notify_owner(self, english: str, error: ConfigError | None = None) -> None:
        """Send the owner a message if they have a private chat."""
        if not self._notifies_owner:
            return
        try:
            route = await self._database.transact(self._owners_route)
            if route is None:
                return
            languages = self._targets.languages
            text, language = languages.text_for(route, english), languages.of_route(route)
            if error is not None:
                text += "\n\n" + _short(await self._error_text(error, language), language)
            await self._database.transact(self._write, route, text, time.time())
        except (StoreError, KoreError) as exc:
            log.warning("the owner could not be notified: %s", exc)
            return
        self._targets.sender.wake(route.lane)

    def _owners_route(self, tx: Transaction) -> Route | None:
        owner = self._targets.access.owner_id
        return private_route(tx, owner) if owner else None

    def _write(self, tx: Transaction, route: Route, text: str, now: float) -> None:
        name = f"config:{hashlib.sha256(text.encode()).hexdigest()[:16]}:{now:.0f}"
        parts = self._targets.renderer.render(route, text)
        outbox.put(tx, None, [OutgoingReply(name, route, parts, "notice")], now)

    def _keep(self) -> None:
        """Save the user's file as the last valid configuration."""
        try:
            text = read_text(self._sources.own_file)
            if text is not None and text != read_text(self._home.last_good_config):
                write_atomic(self._home.last_good_config, text)
        except ConfigError as exc:
            log.warning("the last valid configuration could not be saved: %s", exc)

    async def _settle(self) -> None:
        """Wait until the files stop changing, up to a limit."""
        for _ in range(10):
            before = self._read_stamp()
            await asyncio.sleep(QUIET_INTERVAL_S)
            if self._read_stamp() == before:
                return

    async def _close_retired_models(self) -> None:
        due = time.monotonic() - RETIREMENT_INTERVAL_S
        while (
            self._retired_models
            and self._retired_models[0][0] < due
            and not self._targets.bus.lanes
        ):
            await self._retired_models.pop(0)[1].aclose()

    def _read_stamp(self) -> Stamp:
        return tuple(_stamp(path) for path in self._sources.watched_files)


def _short(problem: str, language: str) -> str:
    first, *more = problem.splitlines()
    with use_locale(language):
        return first + (t(" (and {n} more)", n=len(more)) if more else "")


def _stamp(path: Path) -> tuple[int, int, int, int] | None:
    try:
        info = path.stat()
    except OSError:
        return None
    return info.st_mtime_ns, info.st_ctime_ns, info.st_size, info.st_ino
