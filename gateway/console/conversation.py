"""A conversation in the terminal, which outlives the Kore that it is with."""

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path

from rich.text import Text

from agent.errors import ConfigError, KoreError
from agent.language import speak, spoken, t
from agent.visible import visible
from gateway.console.commands import CHAT_COMMANDS, CONSOLE_COMMANDS
from gateway.console.completion import Completions
from gateway.console.letters import speaks_utf8
from gateway.console.plain import PlainPrompt
from gateway.console.prompt import Prompt
from gateway.console.repl import Repl, Start
from gateway.console.screen import Screen
from gateway.service import Opened, Service
from gateway.wire import OwnerLost

_LOCKED_S = 30.0
_TRIES = 4
_PAUSE_S = 0.5
_LOCKED_AGAIN_S = 0.3
Connect = Callable[[], AbstractAsyncContextManager[Service]]


async def converse(connect: Connect, start: Start, folder: Path) -> None:
    """Talk until the person leaves. `folder` keeps the history of what was typed.

    When the owner of the data goes away, its successor is looked for: several times, because one
    that is being killed may still let callers in. Raises `KoreError` when there is none.
    """
    screen = Screen(sys.stdout)
    prompt: Prompt | PlainPrompt = (
        Prompt(
            folder / "console_history",
            str(start.options.get("cwd", "")),
            Completions((*CHAT_COMMANDS, *CONSOLE_COMMANDS), start.place),
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
    connect: Connect, start: Start, screen: Screen, prompt: Prompt | PlainPrompt
) -> None:
    left: Opened | None = None
    tries = 0
    while True:
        repl: Repl | None = None
        why = ""
        try:
            async with connect() as service:
                opened = left or await service.open_console(start.session, start.fresh)
                speak(opened.language or spoken())
                repl = Repl(service, opened, start, screen, prompt)
                await repl.run(greet=left is None)
                return
        except* OwnerLost as group:
            why = str(_first(group))
            tries = 1 if repl is not None and repl.spoke else tries + 1
            if tries > _TRIES or (repl is None and left is None):
                raise KoreError(t("Kore stopped and cannot be reached again")) from group
        # The same lane again: that is where the answer to an unfinished turn will come.
        left = repl.place if repl is not None else left
        await asyncio.sleep(_PAUSE_S * (tries - 1))
        start = replace(start, choose=False)
        screen.print(Text(t("! {why}; looking for it again …", why=visible(why)), "yellow"))
        connect = _patient(connect)


def _first(group: BaseExceptionGroup[OwnerLost]) -> BaseException:
    cause: BaseException = group
    while isinstance(cause, BaseExceptionGroup):
        cause = cause.exceptions[0]
    return cause


def _patient(connect: Connect) -> Connect:
    """The same, but waiting while the old owner of the data still holds its lock."""

    @asynccontextmanager
    async def connect_patiently() -> AsyncIterator[Service]:
        deadline = time.monotonic() + _LOCKED_S
        while True:
            async with AsyncExitStack() as stack:
                try:
                    service = await stack.enter_async_context(connect())
                except ConfigError as exc:
                    if exc.code != "locked" or time.monotonic() > deadline:
                        raise
                else:
                    yield service
                    return
            await asyncio.sleep(_LOCKED_AGAIN_S)

    return connect_patiently
