"""Calls that send messages and files, and follow the answers on one lane."""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from agent.errors import ConfigError, KoreError
from agent.i18n import current_locale, t
from agent.security.files.paths import INBOX_FOLDER
from agent.security.policy.base import PermissionMode, tightest
from agent.serialization import safe_text
from gateway.access.control import folder_name
from gateway.calls.context import ServiceContext
from gateway.calls.sessions import bind_session, create_session, mode_choice_of
from gateway.commands import find_command, menu
from gateway.control.declaration import call
from gateway.core.messages import (
    CONSOLE,
    InboundMessage,
    Media,
    MessageOptions,
    QueueMode,
    Sender,
    route_of_session,
)
from gateway.core.records import MessageOutcome, WatchEvent
from gateway.core.token_routes import API
from gateway.media.pictures import store_base64
from gateway.sessions.console_binding import LOCAL
from gateway.sessions.event_feeds import lane_events
from gateway.store.repositories import goals
from gateway.store.repositories.conversations import session_folders
from gateway.store.repositories.delivery import inbox
from gateway.store.repositories.execution import turns

_MAX_SUMMARY_CHARS = 200


@call(scope="admin")
async def submit(ctx: ServiceContext, message: InboundMessage) -> None:
    """Queue a message; returns once it is stored."""
    await ctx.bus.submit(message)
    if message.is_once:
        # A one-shot run repeats its message to a new owner, which may have dropped the run.
        reason = await ctx.database.transact(inbox.fate, message)
        if reason is not None:
            raise KoreError(
                t("Kore was restarted and dropped this run"),
                hint=t("its progress is saved in the session: `kore agent -c`"),
            )


@call(scope="read", admin_arguments=("folder",))
@asynccontextmanager
async def watch(
    ctx: ServiceContext, lane: str, folder: str | None = None, after: int | None = None
) -> AsyncIterator[AsyncIterator[WatchEvent]]:
    """Follow the events of a lane, beginning with undelivered answers, open approvals and its goal.
    With the `folder` of a project, file changes between turns are included. To resume after a
    broken connection, pass the `seq` of the last `delivered` event as `after`; later ones are
    repeated."""
    with ctx.events.watch(lane) as watcher:
        ctx.console_reservations.release(lane)
        for approval in await ctx.approvals.open_questions(lane):
            watcher.put(ctx.approvals.request_event(approval))
        goal = await ctx.database.transact(goals.of_lane, lane)
        if goal is not None and goal.lane == lane:
            watcher.put(goal.event)
        await ctx.sender.retry_now(lane)
        async with ctx.feed.follow(lane, folder):
            yield lane_events(ctx.database, lane, after, watcher)


@call(scope="chat")
async def send_message(  # noqa: PLR0913 - all but two are options, passed by name
    ctx: ServiceContext,
    session: str | None,
    text: str,
    event_id: str = "",
    mode: PermissionMode | None = None,
    media: tuple[Media, ...] = (),
    agent: str | None = None,
    queue: QueueMode | None = None,
    mode_limit: PermissionMode | None = None,
) -> str:
    """Send a message to a session (None: a new one); returns the session's id once the message is
    stored. A second message with the same `event_id` is ignored; for a new session, call
    `create_session` first. `mode` is chosen for the session. `agent` names the agent that answers;
    `queue` says how a running turn handles the message, unless the conversation has its own choice.
    `mode_limit` is the most permissive mode for this message, even if the conversation has chosen
    another; with it, `mode` can only lower the limit."""
    agent_option = await _agent_option(ctx, agent, session)
    session = await ctx.find_session(session or await create_session(ctx))
    route = route_of_session(session)
    await bind_session(ctx, route.lane, session)
    choose_mode = None
    if mode is not None and mode_limit is not None:
        mode_limit = tightest(mode, mode_limit)
    elif mode is not None:
        choose_mode = mode_choice_of(ctx, session, mode)
    message = InboundMessage(
        channel=route.channel,
        account=route.account,
        chat_id=route.chat_id,
        sender=Sender(str(os.getuid())),
        event_id=event_id or os.urandom(16).hex(),
        content=safe_text(text),
        received_at=time.time(),
        options=MessageOptions(mode_limit=mode_limit, agent=agent_option, queue=queue),
        # The files at the paths count, not the client's description of them.
        media=tuple([await ctx.uploads.look_again(attachment) for attachment in media]),
        language=current_locale(),
    )
    await ctx.bus.submit(message, choose_mode)
    return session


async def _agent_option(
    ctx: ServiceContext, name: str | None, session: str | None
) -> Mapping[str, Any] | None:
    """Return an agent of the session's folder as an option of a message.

    Raises `ConfigError` for an unknown agent.
    """
    if name is None:
        return None
    folder = ctx.agent.workspace.folder
    if session is not None:
        session_id = await ctx.find_session(session)
        own_folder = await ctx.database.transact(session_folders.of_session, session_id)
        folder = folder if own_folder is None else Path(own_folder.workspace)
    agent = await asyncio.to_thread(ctx.agent.subagents.find, name, folder)
    if agent is None:
        raise ConfigError(
            t("unknown agent {name!r}", name=name[:80]), hint=t("`kore agents list` shows them")
        )
    return asdict(agent)


@call(scope="read")
async def message_outcome(ctx: ServiceContext, event_id: str) -> MessageOutcome:
    """Return the outcome of the message with this `event_id`."""
    for channel in (CONSOLE, API):
        outcome = await ctx.database.transact(turns.find_outcome, channel, LOCAL, event_id)
        if outcome.state != "unknown":
            break
    return outcome


@call(scope="read", admin_arguments=("folder",))
async def list_commands(
    ctx: ServiceContext, folder: str | None = None
) -> Sequence[Mapping[str, Any]]:
    """List chat commands, your own commands and skills, which begin with a slash: `name`,
    `summary`. `folder` selects your own: it is the real path of a session's workspace (None: the
    assistant's workspace)."""
    commands = [{"name": command.name, "summary": t(command.summary)} for command in menu()]
    if ctx.agent.skills is None:
        return commands
    root = ctx.agent.workspace.folder if folder is None else Path(folder)
    prompts = await asyncio.to_thread(ctx.agent.skills.commands(root).menu)
    return commands + [
        {"name": prompt.name, "summary": t(prompt.summary)[:_MAX_SUMMARY_CHARS]}
        for prompt in prompts
        if find_command(prompt.name) is None
    ]


@call(scope="admin")
async def stop_turn(ctx: ServiceContext, lane: str) -> bool:
    """Stop the running turn of a lane; False if there is none."""
    return await ctx.bus.stop(lane)


@call(scope="chat", admin_arguments=("token",))
async def store_picture(ctx: ServiceContext, data: str, token: str = "") -> Media:
    """Store a picture (PNG, JPEG, GIF or WebP, as base64) for `send_message`; with the name of a
    `token` that has a role, among the files of this token."""
    workspace = ctx.agent.workspace.folder
    folder = workspace / INBOX_FOLDER / API
    if token:
        folder /= folder_name(token)
    return await asyncio.to_thread(store_base64, data, folder, workspace)


@call(scope="chat")
async def begin_upload(ctx: ServiceContext, name: str, size_bytes: int) -> str:
    """Begin to upload a file for `send_message`; returns the id of the upload. Fails for a file
    larger than `media.max_file_mb`."""
    return await ctx.uploads.begin(name, size_bytes)


@call(scope="chat")
async def continue_upload(ctx: ServiceContext, upload: str, offset: int, data: str) -> Media | None:
    """Add the next part, at most 1 MB as base64; returns the file once it is complete. Parts must
    arrive in order and may be repeated. Fails with `unknown-upload` for an abandoned upload and
    after a restart."""
    return await ctx.uploads.add(upload, offset, data)


@call(scope="read")
async def read_sent_file(
    ctx: ServiceContext, session: str, seq: int, call: str, number: int, offset: int = 0
) -> Mapping[str, Any]:
    """Return a part of the current content of a file sent by the tool `send_file`: `name`, `size`,
    `version`, `data`. The file is number `number` (from 0) of the tool call `call` in message
    `seq`."""
    return await ctx.sent_files.read(session, seq, call, number, offset)
