"""Questions before something is done: what exactly, and one key for the answer."""

import asyncio
import os
import termios
import tty
from collections.abc import Awaitable, Callable
from typing import TextIO

from agent.events import ApprovalAsked
from agent.i18n import t
from agent.security.policy.base import Answer
from agent.text.visible import escape_for_approval
from gateway.cli.console.approvals.key_choice import KeyChoice
from gateway.cli.console.output.approval_text import CHOICES, subject, time_left, verdict

_CTRL_C = "\x03"


def ask_at_terminal(
    keys: TextIO, screen: TextIO, interrupted: asyncio.Event
) -> Callable[[ApprovalAsked], Awaitable[Answer]]:
    """Ask on a bare terminal, outside of a conversation. Ctrl-C denies and interrupts."""

    async def ask(approval: ApprovalAsked) -> Answer:
        diff = f"\n{escape_for_approval(approval.diff)}" if approval.diff else ""
        print(
            f"? {subject(approval)}{diff}\n  {escape_for_approval(t(approval.reason))}", file=screen
        )
        print(f"  {t(CHOICES)}{time_left(approval.expires_s)} ", end="", file=screen, flush=True)
        answer = await _one_answer(keys.fileno(), approval.expires_s, interrupted)
        print(verdict(answer), file=screen, flush=True)
        return answer

    return ask


async def _one_answer(
    terminal: int, deadline_s: float | None, interrupted: asyncio.Event
) -> Answer:
    loop = asyncio.get_running_loop()
    result: asyncio.Future[Answer] = loop.create_future()

    def decide(answer: Answer) -> None:
        if not result.done():
            result.set_result(answer)

    choice = KeyChoice(decide)
    choice.arm()

    def on_key() -> None:
        key = _read(terminal)
        if key == _CTRL_C:
            interrupted.set()
            decide("deny")
        elif not choice.press(key):
            choice.arm()

    before = termios.tcgetattr(terminal)
    try:
        tty.setraw(terminal, termios.TCSAFLUSH)
        _keep_output(terminal)
        loop.add_reader(terminal, on_key)
        async with asyncio.timeout(deadline_s):
            return await result
    except TimeoutError:
        return "deny"
    finally:
        choice.take_back()
        loop.remove_reader(terminal)
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)


def _read(terminal: int) -> str:
    return os.read(terminal, 1).decode(errors="replace") or _CTRL_C


def _keep_output(terminal: int) -> None:
    mode = termios.tcgetattr(terminal)
    mode[tty.OFLAG] |= termios.OPOST
    termios.tcsetattr(terminal, termios.TCSANOW, mode)
