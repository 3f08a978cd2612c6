"""Calls that read, follow and change sessions. A session may be named by an unambiguous prefix."""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from itertools import chain, count
from pathlib import Path
from typing import Any, Literal, cast

from agent.errors import ConfigError, KoreError
from agent.i18n import t
from agent.security.policy.base import PermissionMode, is_mode
from agent.text.visible import escape_line
from agent.types import Message
from gateway.calls.context import ServiceContext
from gateway.control.declaration import call
from gateway.core.event_levels import Level, is_wanted
from gateway.core.messages import CONSOLE, QueueMode, Route, console_principal, route_of_session
from gateway.core.records import (
    ConsoleLease,
    SearchHit,
    SessionEvent,
    SessionInfo,
    SessionNews,
    SessionPreview,
)
from gateway.core.session_folder import SessionFolder
from gateway.core.turn_choice import SKILL_CHOICES, TurnChoice, translated
from gateway.ops.working_place import chosen_place
from gateway.sessions import (
    console_binding,
    finished_plan,
    lookup,
    mode_choice,
    service,
    skill_offer,
)
from gateway.sessions.console_binding import LOCAL, MAIN
from gateway.sessions.event_feeds import session_events
from gateway.store.port import Transaction
from gateway.store.repositories import goals
from gateway.store.repositories.conversations import choices, session_folders, sessions
from gateway.store.repositories.conversations import sessions as stored_sessions


@call(scope="read")
@asynccontextmanager
async def follow_session(
    ctx: ServiceContext,
    session: str,
    after: int = 0,
    kinds: tuple[str, ...] = (),
    level: Level = "debug",
) -> AsyncIterator[AsyncIterator[SessionEvent]]:
    """Follow a session: its stored messages numbered above `after`, open approvals, its goal, and
    the live events of its turns in any chat. `kinds` selects types of live events (none: all),
    `level` is the lowest level. A message replaces the text streamed before it. To resume, pass the
    `seq` of the last message as `after`."""
    session = await ctx.find_session(session)
    lane = route_of_session(session).lane
    with ctx.events.watch(lane, session) as watcher:
        lanes = await ctx.database.transact(stored_sessions.lanes_of, session)
        for approval in await ctx.approvals.open_questions():
            if approval.lane in lanes:
                watcher.put(ctx.approvals.request_event(approval))
        if (goal := await ctx.database.transact(goals.find, session)) is not None:
            watcher.put(goal.event)
        await ctx.sender.retry_now(lane)
        yield session_events(ctx.database, session, after, watcher, kinds, level)


@call(scope="read")
@asynccontextmanager
async def follow_sessions(
    ctx: ServiceContext,
    sessions: tuple[str, ...] = (),
    kinds: tuple[str, ...] = (),
    level: Level = "info",
) -> AsyncIterator[AsyncIterator[SessionNews]]:
    """Follow several sessions (none: all) over one stream: the live events of their turns and
    `session_changed`, each with the session's id, of these `kinds` (none: all) and at least this
    `level`. Past events are not included: list the sessions once the stream is open."""
    ids = [await ctx.find_session(session) for session in sessions]

    def accepts(session: str, event: SessionEvent) -> bool:
        return (not ids or session in ids) and is_wanted(event, kinds, level)

    with ctx.events.watch_sessions(accepts) as watcher:
        yield cast("AsyncIterator[SessionNews]", aiter(watcher))


@call(scope="admin")
async def list_session_folders(ctx: ServiceContext) -> Sequence[SessionFolder]:
    """List the folders that a new session can work in: folders of earlier sessions, most recently
    used first, and trusted folders."""
    used = await ctx.database.transact(session_folders.used, console_principal())
    settings, home = ctx.screens.settings, ctx.screens.home

    def existing() -> list[SessionFolder]:
        trusted = (Path(os.path.realpath(folder)) for folder in settings.security.trusted_folders)
        places = (chosen_place(settings, home, folder) for folder in trusted if folder.is_dir())
        folders = dict.fromkeys([*used, *(place.session_folder for place in places)])
        return [folder for folder in folders if os.path.isdir(folder.path)]

    return await asyncio.to_thread(existing)


@call(scope="chat", admin_arguments=("folder",))
async def create_session(ctx: ServiceContext, folder: SessionFolder | None = None) -> str:
    """Create a session that works in a folder of `list_session_folders` (None: the workspace);
    returns its id."""
    if folder is not None and folder not in await list_session_folders(ctx):
        raise KoreError(
            t("{folder} is not a folder for sessions", folder=escape_line(folder.path[:200])),
            hint=t("Work there once in a terminal, or trust it: kore trust FOLDER"),
        )

    def create(tx: Transaction) -> str:
        session = stored_sessions.create_session(tx, console_principal(), time.time())
        session_folders.put(tx, session, folder)
        return session

    session = await ctx.database.transact(create)
    ctx.announce(session)
    return session


@call(scope="chat")
async def stop_session(ctx: ServiceContext, session: str) -> bool:
    """Stop the turns that run in a session; False if there are none."""
    session = await ctx.find_session(session)
    # A turn that waits for an answer is not running, but ends when its lane is stopped.
    lanes = await ctx.database.transact(stored_sessions.lanes_of, session)
    busy_lanes = ctx.events.lanes_at_work(session)
    stopped = [await ctx.bus.stop(lane) for lane in dict.fromkeys([*busy_lanes, *lanes])]
    return any(stopped)


@call(scope="admin")
async def open_console(
    ctx: ServiceContext, session: str | None, fresh: bool, folder: str | None = None
) -> ConsoleLease:
    """Reserve an unused console lane, bound to `session`, to a new session (`fresh`), or to the
    lane's last session. Unfinished work of the lane is continued instead of starting a new session,
    unless it belongs to a folder other than `folder` (the real path of a workspace)."""
    ctx.jobs.start_firing()
    session_chats = (
        await ctx.database.transact(console_binding.consoles_of, session) if session else []
    )
    numbered = (f"{MAIN}-{number}" for number in count(2))
    passed_over: str | None = None
    for chat_id in chain(session_chats, [MAIN], numbered):
        lane = Route(CONSOLE, LOCAL, chat_id).lane
        if ctx.console_reservations.is_reserved(lane) or ctx.events.is_watched(lane):
            continue
        # Before the first await, so that a console that opens meanwhile gets another lane.
        ctx.console_reservations.reserve(lane)
        lease: ConsoleLease | None = None
        try:
            lease = await _lease_console(ctx, chat_id, session, fresh, folder)
        finally:
            if lease is None:
                ctx.console_reservations.release(lane)
        if lease is not None:
            return replace(lease, passed_over=passed_over)
        if fresh and passed_over is None:
            passed_over = await bound_session(ctx, lane)
    raise AssertionError("there is always a further number")


async def _lease_console(
    ctx: ServiceContext, chat_id: str, session: str | None, fresh: bool, folder: str | None
) -> ConsoleLease | None:
    lease = await ctx.database.transact(
        console_binding.open_console, chat_id, session, fresh, folder
    )
    if lease is None:
        return None
    if lease.session is not None and not fresh:
        await ctx.sessions.set_status(lease.session, "open")
    return replace(lease, language=ctx.languages.choice_of(console_principal()))


@call(scope="read")
async def list_sessions(
    ctx: ServiceContext, limit: int = 50, folder: str | None = None
) -> Sequence[SessionInfo]:
    """List sessions, most recently used first; with `folder` (the real path of a workspace) only
    sessions that work there."""
    return await ctx.database.transact(partial(sessions.recent, limit=limit, workspace=folder))


@call(scope="read")
async def bound_session(ctx: ServiceContext, lane: str) -> str | None:
    """Return the session that a lane is bound to; None until its next message creates one."""
    return await ctx.database.transact(stored_sessions.bound_session, lane)


@call(scope="read")
async def last_session(
    ctx: ServiceContext, principal: str, folder: str | None = None
) -> str | None:
    """Return the most recently used open session; with `folder` (the real path of a workspace) only
    among sessions that work there."""
    return await ctx.database.transact(stored_sessions.last_of, principal, folder)


@call(scope="read")
async def preview_session(
    ctx: ServiceContext, session: str, first: int, last: int
) -> SessionPreview:
    """Return a session's first and last messages."""
    return await ctx.sessions.preview(session, first, last)


@call(scope="read")
async def load_messages(ctx: ServiceContext, session: str) -> Sequence[Message]:
    """Return all messages of a session."""

    def load(tx: Transaction) -> Sequence[Message]:
        return stored_sessions.load_all(tx, lookup.find(tx, session))

    return await ctx.database.transact(load)


@call(scope="read")
async def queue_mode(ctx: ServiceContext, lane: str) -> QueueMode | None:
    """Return how messages that arrive during a turn are handled; None without a choice of the
    conversation."""
    return await ctx.database.transact(stored_sessions.queue_mode_of_lane, lane)


@call(scope="read")
async def conversation_status(ctx: ServiceContext, lane: str) -> Mapping[str, Any]:
    """Return a lane's `session`, `model`, `mode`, `waiting`, `cost_usd`, `folder` (with `~` for the
    home folder) and `goal` (as in the event `goal`; null without one, or if it is met)."""
    return await ctx.database.transact(service.conversation_status, lane)


@call(scope="read")
async def turn_choices(ctx: ServiceContext, session: str) -> Sequence[TurnChoice]:
    """Return the choices that the last turn offers, each made by a message with its `text`: after a
    plan, and after a long turn whose procedure can be saved as a skill."""

    def find(tx: Transaction) -> Sequence[TurnChoice]:
        session_id = lookup.find(tx, session)
        if plan_choices := finished_plan.choices_of(tx, session_id):
            return translated(plan_choices)
        return translated(SKILL_CHOICES) if skill_offer.is_open(tx, session_id) else ()

    return await ctx.database.transact(find)


@call(scope="admin")
async def bind_session(ctx: ServiceContext, lane: str, session: str | None) -> str:
    """Bind a lane to a session (None: a new one); returns the session's id."""
    bound = await ctx.database.transact(console_binding.bind, lane, session)
    if session is not None:
        # Continuing a paused session resumes it for every lane that waits in it.
        await ctx.sessions.set_status(bound, "open")
    return bound


@call(scope="read")
async def search_messages(ctx: ServiceContext, words: str, limit: int = 20) -> Sequence[SearchHit]:
    """Find the newest messages that contain all words. Fails if the database is encrypted."""
    return await ctx.sessions.search(words, limit)


@call(scope="chat")
async def fork_session(ctx: ServiceContext, session: str, last: int | None = None) -> str:
    """Copy a session, completely or up to message number `last` (0: no messages); returns the id of
    the copy. Fails if `last` is between a tool call and its result."""
    fork = await ctx.sessions.fork(session, last)
    ctx.announce(fork)
    return fork


@call(scope="chat")
async def rename_session(ctx: ServiceContext, session: str, name: str) -> str:
    """Rename a session ('' restores its automatic name); returns a confirmation."""
    sentence = await ctx.sessions.rename(session, name)
    ctx.announce(await ctx.find_session(session))
    return sentence


@call(scope="chat")
async def set_session_status(
    ctx: ServiceContext, session: str, status: Literal["open", "paused", "closed"]
) -> str:
    """Open, pause or close a session; returns a confirmation. A running session cannot be
    closed."""
    sentence = await ctx.sessions.set_status(session, status)
    ctx.announce(await ctx.find_session(session))
    return sentence


@call(scope="read")
async def export_session(ctx: ServiceContext, session: str) -> Sequence[str]:
    """Return a session as JSON lines, its metadata first."""
    return await ctx.sessions.export_lines(session)


@call(scope="admin")
async def import_session(ctx: ServiceContext, file: Path) -> str:
    """Create a session from a file exported by Kore or KodaX; returns its id."""
    session = await ctx.sessions.import_session(file)
    ctx.announce(session)
    return session


@call(scope="admin")
async def choose_model(ctx: ServiceContext, session: str, model: str) -> None:
    """Choose the model of a session from the next turn on: a configured model, a profile, or
    vendor/model."""
    models = ctx.agent.models
    try:
        models.check(model)
    except ConfigError as exc:
        # The argument is wrong, not a configuration file.
        raise KoreError(str(exc), hint=exc.hint) from exc
    # Choosing a model, even the current one, suggests that it works now.
    models.expire_cooldowns(model)

    def choose(tx: Transaction) -> None:
        choices.put(tx, lookup.find(tx, session), choices.MODEL, model)

    await ctx.database.transact(choose)


@call(scope="read")
async def session_mode(ctx: ServiceContext, session: str | None) -> PermissionMode:
    """Return the permission mode of a session, or of a new session (None)."""

    def find(tx: Transaction) -> str | None:
        return stored_sessions.chosen_mode(tx, lookup.find(tx, session)) if session else None

    mode = await ctx.database.transact(find)
    return mode if is_mode(mode) else ctx.default_mode(CONSOLE)


@call(scope="admin")
async def choose_mode(ctx: ServiceContext, session: str, mode: PermissionMode) -> None:
    """Choose the permission mode of a session from the next turn on; a looser mode is recorded in
    the audit log."""
    await ctx.database.transact(mode_choice_of(ctx, session, mode))


def mode_choice_of(
    ctx: ServiceContext, session: str, mode: PermissionMode
) -> Callable[[Transaction], None]:
    """Return a function that chooses the mode of a session in a transaction."""
    by = {"who": console_principal(), "chat": ""}
    default = ctx.default_mode(CONSOLE)

    def choose(tx: Transaction) -> None:
        mode_choice.choose_mode(tx, lookup.find(tx, session), mode, default, by, time.time())

    return choose
