"""Questions before something is done: what exactly, and one key for the answer."""

import asyncio
import os
import termios
import tty
from collections.abc import Awaitable, Callable
from typing import TextIO

from agent.events import ApprovalAsked
from agent.security.policy import Answer
from gateway.console.lines import seconds, visible

CHOICES = "[y] once  [a] for this session  [n] no"
_CTRL_C = "\x03"
# What was typed for another purpose must not approve anything: keys count after this pause.
PAUSE_S = 0.4


def answer_for(key: str) -> Answer | None:
    """What a key means; None when it means nothing. Escape, Ctrl-C and Enter deny."""
    if key in ("y", "Y"):
        return "once"
    if key in ("a", "A"):
        return "session"
    return "deny" if key in ("n", "N", "\x1b", _CTRL_C, "\r", "\n") else None


def subject(asked: ApprovalAsked) -> str:
    """Exactly what would happen, every character visible; a diff is shown beside it."""
    arguments = asked.arguments
    if isinstance(command := arguments.get("command"), str):
        others = [f"  {name}: {value}" for name, value in arguments.items() if name != "command"]
        return visible("\n".join([f"{asked.tool}: {command}", *others]))
    if asked.diff is not None and "path" in arguments:
        return visible(f"{asked.tool}: {arguments['path']}")
    told = "\n".join(f"  {name}: {value}" for name, value in arguments.items())
    return visible(f"{asked.tool}\n{told}" if told else asked.tool)


def verdict(answer: Answer) -> str:
    return {"once": "allowed once", "session": "allowed for this session", "deny": "denied"}[answer]


def ask_at_terminal(
    keys: TextIO, screen: TextIO, interrupted: asyncio.Event
) -> Callable[[ApprovalAsked], Awaitable[Answer]]:
    """Ask on a bare terminal, outside of a conversation. Ctrl-C denies and interrupts."""

    async def ask(asked: ApprovalAsked) -> Answer:
        diff = f"\n{visible(asked.diff)}" if asked.diff else ""
        print(f"? {subject(asked)}{diff}\n  {visible(asked.reason)}", file=screen)
        left = seconds(asked.expires_s)
        print(f"  {CHOICES}  ({left} left) ", end="", file=screen, flush=True)
        answer = await _one_answer(keys.fileno(), asked.expires_s, interrupted)
        print(verdict(answer), file=screen, flush=True)
        return answer

    return ask


async def _one_answer(terminal: int, deadline_s: float, interrupted: asyncio.Event) -> Answer:
    loop = asyncio.get_running_loop()
    found: asyncio.Future[Answer] = loop.create_future()

    def on_key() -> None:
        key = _read(terminal)
        if key == _CTRL_C:
            interrupted.set()
        answer = answer_for(key)
        if answer is not None and not found.done():
            found.set_result(answer)

    before = termios.tcgetattr(terminal)
    try:
        tty.setraw(terminal, termios.TCSAFLUSH)
        _keep_output(terminal)
        loop.add_reader(terminal, on_key)
        async with asyncio.timeout(deadline_s):
            return await found
    except TimeoutError:
        return "deny"
    finally:
        loop.remove_reader(terminal)
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)


def _read(terminal: int) -> str:
    return os.read(terminal, 1).decode(errors="replace") or _CTRL_C


def _keep_output(terminal: int) -> None:
    mode = termios.tcgetattr(terminal)
    mode[tty.OFLAG] |= termios.OPOST
    termios.tcsetattr(terminal, termios.TCSANOW, mode)
