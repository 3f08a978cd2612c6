"""The composition root: opens every part, runs them as one task group, closes them in order."""

import asyncio
import logging
import os
import time
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from sqlite3 import Connection

from agent.agent import Agent
from agent.providers.local import ollama_models
from agent.providers.models import Models
from agent.providers.routing import OFFLINE
from agent.settings import AgentSettings, ToolSettings
from gateway.access import Access, sole_owner
from gateway.approvals import Approvals
from gateway.bus import MessageBus
from gateway.channels.base import Channel
from gateway.channels.console import ConsoleChannel
from gateway.commands.replies import Commands
from gateway.delivery import Delivery
from gateway.desk import Desk
from gateway.facts import Facts
from gateway.home import Home
from gateway.lock import hold
from gateway.messages import ONCE
from gateway.reception import Reception
from gateway.roster import allowed_senders, open_channels, say_who_is_let_in
from gateway.rules import Rules
from gateway.settings import Settings
from gateway.settings.models import chosen_model, model_list
from gateway.store import outbox, turns
from gateway.store.database import Database
from gateway.turn import Turns
from gateway.watchers import Watchers
from gateway.workspace import ensure_workspace

log = logging.getLogger(__name__)

STOP_S = 10.0
Channels = dict[tuple[str, str], Channel]


@dataclass(frozen=True, slots=True)
class App:
    """The running parts that others speak to."""

    desk: Desk
    bus: MessageBus
    delivery: Delivery
    reception: Reception

    @classmethod
    @asynccontextmanager
    async def open(cls, settings: Settings, home: Home, *, channels: bool) -> AsyncIterator["App"]:
        """Own the data and run until the block ends; then drain and close.

        With `channels` everything that is enabled is started, else the console alone. Raises
        `Locked` when another process owns the data, `StoreError`, `ConfigError`.
        """
        home.ensure()
        ensure_workspace(settings.agent.workspace)
        async with AsyncExitStack() as stack:
            what = "kore gateway" if channels else "kore agent"
            unclean = stack.enter_context(hold(home.lock, what))
            database = Database.open(settings.store.path, check=unclean)
            stack.push_async_callback(database.close)
            await database.run(_recover)
            agent = await _agent(settings, home)
            stack.push_async_callback(agent.aclose)
            watchers = Watchers()
            ways: Channels = {}
            _add(ways, ConsoleChannel(watchers))
            if channels:
                for channel in await open_channels(settings, database, stack):
                    _add(ways, channel)
                    say_who_is_let_in(channel, settings)
            app = _assemble(settings, database, agent, watchers, ways)
            async with _running(app, database, watchers), _reachable(app, home):
                if channels:
                    await stack.enter_async_context(_observable(app, settings))
                yield app


def _assemble(
    settings: Settings, database: Database, agent: Agent, watchers: Watchers, ways: Channels
) -> App:
    telegram = settings.telegram
    owner = sole_owner(settings.access.owner, telegram.allow_from)
    access = Access(owner, {key: allowed_senders(settings, key) for key in ways})
    approvals = Approvals(watchers)
    delivery = Delivery(database, ways)
    rules = Rules(access, approvals, settings.agent.workspace, settings.security.blocked_commands)
    work = Turns(database, agent, delivery, watchers, rules)
    reception = Reception(ways)
    facts = Facts(agent.models.default, settings.agent.workspace, ways, reception, time.monotonic())
    commands = Commands(agent.models, access, facts.for_chat)
    bus = MessageBus(database, access, commands, work, delivery)
    desk = Desk(database, bus, delivery, watchers, approvals, facts)
    return App(desk, bus, delivery, reception)


@asynccontextmanager
async def _running(app: App, database: Database, watchers: Watchers) -> AsyncIterator[None]:
    """Lanes, senders, pollers, in this order; on the way out the pollers end first."""
    async with asyncio.TaskGroup() as group:
        work = [
            group.create_task(app.bus.run(), name="bus"),
            group.create_task(app.delivery.run(), name="delivery"),
        ]
        receiving = group.create_task(app.reception.run(app.bus.accept), name="reception")
        try:
            yield
        finally:
            receiving.cancel()
            await asyncio.wait({receiving})
            try:
                async with asyncio.timeout(STOP_S):
                    await app.bus.drain()
                    await app.delivery.flush()
            except TimeoutError:
                log.warning("stopped with work under way; it goes on at the next start")
            watchers.close()
            for task in work:
                task.cancel()
            await asyncio.wait(work)
            await database.run(turns.suspend_all)


@asynccontextmanager
async def _reachable(app: App, home: Home) -> AsyncIterator[None]:
    """Other `kore` processes speak to this one."""
    from gateway.control import ControlServer

    async with ControlServer(app.desk, home.socket):
        yield


def _observable(app: App, settings: Settings) -> AbstractAsyncContextManager[None]:
    """Supervisors ask this process how it is."""
    from gateway.health import serve_health

    def counts() -> dict[str, float]:
        return {
            "messages_accepted": app.bus.accepted,
            "turns_handled": app.bus.handled,
            "parts_sent": app.delivery.sent,
            "sends_failed": app.delivery.failed,
            "parts_given_up": app.delivery.given_up,
        }

    return serve_health(settings.http.host, settings.http.port, app.desk, counts)


async def _agent(settings: Settings, home: Home) -> Agent:
    models = Models(
        default=await _default_model(settings),
        known=model_list(settings),
        fallback=settings.agent.fallback,
        environ=os.environ,
        window=settings.context.max_tokens,
    )
    tools = ToolSettings(
        exec_timeout_s=settings.tools.exec_timeout_s,
        output_limit_bytes=settings.tools.output_limit_bytes,
        web_search_results=settings.tools.web_search_results,
        restrict_to_workspace=settings.security.restrict_to_workspace,
        blocked_paths=settings.security.blocked_paths,
        off_limits=(*home.own, *settings.files, *settings.store.files),
    )
    return Agent(
        models,
        workspace=settings.agent.workspace,
        settings=AgentSettings(
            max_iterations=settings.agent.max_iterations,
            temperature=settings.agent.temperature,
            max_tokens=settings.agent.max_tokens,
            tools=tools,
        ),
    )


async def _default_model(settings: Settings) -> str:
    """The configured model, a vendor whose key is at hand, a local Ollama, or the stand-in."""
    chosen = chosen_model(settings, os.environ)
    if chosen == OFFLINE and settings.agent.model != OFFLINE:
        local = await ollama_models()
        return f"ollama/{local[0]}" if local else OFFLINE
    return chosen


def _add(ways: Channels, channel: Channel) -> None:
    ways[channel.name, channel.account] = channel


def _recover(connection: Connection) -> None:
    """Sort out what the last process left, before anything runs."""
    given_up = turns.abandon(connection, ONCE, time.time())
    marked = outbox.recover(connection)
    if given_up or marked:
        log.info("recovered: %d marked as possible repeats, %d given up", marked, given_up)
