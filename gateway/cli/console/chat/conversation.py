"""Conversation in the terminal that survives a change of the Kore process."""

import asyncio
import os
import sys
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from pathlib import Path

from rich.text import Text

from agent.errors import KoreError
from agent.i18n import current_locale, set_locale, t
from agent.text.visible import escape_invisible
from gateway.cli.console.chat.local_commands import CHAT_COMMANDS, CONSOLE_COMMANDS
from gateway.cli.console.chat.place import choose_first_mode
from gateway.cli.console.chat.repl import Repl, ReplOptions, Resumption, continued_place
from gateway.cli.console.input.completion import Completions
from gateway.cli.console.input.plain_prompt import PlainPrompt
from gateway.cli.console.input.prompt import Prompt
from gateway.cli.console.output.screen import Screen, speaks_utf8
from gateway.control.service import Service
from gateway.core.errors import ConnectionLost, HandedOver
from gateway.core.messages import console_principal
from gateway.core.records import ConsoleLease

_MAX_TRIES = 4
_PAUSE_S = 0.5
# Connects to a service, or to its successor after a loss.
Connect = Callable[[ConnectionLost | None], AbstractAsyncContextManager[Service]]


async def converse(connect: Connect, start: ReplOptions, folder: Path) -> None:
    """Run the conversation until the person leaves; `folder` stores the input history.

    If the owner of the data stops, try to find its successor. Several attempts are made, because a
    process that is being killed may still accept clients. Raises `KoreError` if there is no
    successor.
    """
    screen = Screen(sys.stdout)
    prompt: Prompt | PlainPrompt = (
        Prompt(
            folder / "console_history",
            start.options.cwd or "",
            _completions(start),
            "› " if speaks_utf8(sys.stdout) else "> ",
        )
        if screen.live
        else PlainPrompt(sys.stdin, sys.stdout)
    )
    with prompt.quiet():
        try:
            await _converse(connect, start, screen, prompt)
        finally:
            await prompt.close()


async def _converse(
    connect: Connect, start: ReplOptions, screen: Screen, prompt: Prompt | PlainPrompt
) -> None:
    earlier: ConsoleLease | None = None
    resumed: Resumption | None = None
    lost: ConnectionLost | None = None
    tries, is_beginning = 0, True
    while True:
        repl: Repl | None = None
        try:
            async with connect(lost) as service:
                try:
                    if lost is not None:
                        screen.print(Text(await _describe_successor(service, lost), "dim"))
                    if earlier is None:
                        start = await _settle(service, start, screen, prompt)
                    while True:
                        lease = earlier or await service.open_console(
                            start.session, start.is_new, start.options.cwd
                        )
                        set_locale(lease.language or current_locale())
                        if is_beginning and lease.session is not None:
                            await choose_first_mode(service, lease.session, start.options)
                        is_beginning = False
                        repl = Repl(service, lease, start, screen, prompt, resumed)
                        await repl.run()
                        if repl.successor is None:
                            return
                        start, earlier, resumed = repl.successor, None, None
                        repl = None
                        await _switch_folder(prompt, start)
                except* ConnectionLost as group:
                    # Handle the loss outside as well, after the connection has been closed in
                    # order.
                    lost = _most_informative(group)
        except* ConnectionLost as group:
            lost = _most_informative(group)
        assert lost is not None, "only a loss comes here"
        tries = 1 if repl is not None and repl.has_received_event else tries + 1
        if tries > _MAX_TRIES or (repl is None and earlier is None):
            raise KoreError(t("Kore stopped and the connection could not be restored")) from lost
        # Reuse the lane, because the answer of an unfinished turn will arrive there.
        if repl is not None:
            earlier, resumed = repl.current_lease, repl.resumption
            start = replace(start, place=repl.place)
        await asyncio.sleep(_PAUSE_S * (tries - 1))
        start = replace(start, choose=False)
        if not isinstance(lost, HandedOver):
            why = escape_invisible(str(lost))
            screen.print(Text(t("! {why}; reconnecting …", why=why), "yellow"))


async def _settle(
    service: Service, start: ReplOptions, screen: Screen, prompt: Prompt | PlainPrompt
) -> ReplOptions:
    """Return the options with the session to continue, and with the folder where it continues."""
    if start.session is None and not start.is_new:
        start = await _with_last_session(service, start, screen)
    if start.session is None:
        return start
    place = await continued_place(service, start.session, start, screen, prompt)
    if place is start.place:
        return start
    start = replace(start, place=place)
    await _switch_folder(prompt, start)
    return start


async def _switch_folder(prompt: Prompt | PlainPrompt, start: ReplOptions) -> None:
    """Let the prompt complete names in the new folder."""
    if isinstance(prompt, Prompt):
        await prompt.move(start.options.cwd or "", _completions(start))


def _completions(start: ReplOptions) -> Completions:
    return Completions((*CHAT_COMMANDS, *CONSOLE_COMMANDS), start.place.workdir)


async def _with_last_session(service: Service, start: ReplOptions, screen: Screen) -> ReplOptions:
    """Return the options for the last session of the folder, or for a new one."""
    session = await service.last_session(console_principal(), start.options.cwd)
    if session is None and start.options.cwd is not None:
        notice = t("There is no conversation in this folder yet; this one is new.")
        screen.print(Text(notice, "dim"))
    return replace(start, session=session, is_new=session is None)


async def _describe_successor(service: Service, lost: ConnectionLost) -> str:
    """Return one line about the service that continues the conversation."""
    status = await service.status()
    if status.get("pid") == os.getpid():
        return t(
            "· No gateway is running: this terminal works on its own; chats need `kore gateway`."
        )
    if isinstance(lost, HandedOver):
        return t("· {why}: this conversation now uses it.", why=escape_invisible(str(lost)))
    return t("· Reconnected.")


def _most_informative(group: BaseExceptionGroup[ConnectionLost]) -> ConnectionLost:
    """Return the most informative loss; several calls may have been pending."""
    cause: BaseException = group.subgroup(HandedOver) or group
    while isinstance(cause, BaseExceptionGroup):
        cause = cause.exceptions[0]
    assert isinstance(cause, ConnectionLost)
    return cause
