"""Approval prompt on a plain terminal: the exact action and one key as the answer."""

import asyncio
import codecs
import os
import termios
import tty
from collections.abc import Awaitable, Callable
from typing import TextIO

from agent.approvals import QuestionOption
from agent.events import ApprovalAnswered, ApprovalAsked
from gateway.cli.console.approvals.key_choice import KeyChoice
from gateway.cli.console.output.approval_text import (
    choices_for,
    choices_text,
    question_text,
    time_left,
    words_hint,
)
from gateway.core.approval import ApprovalReply
from gateway.presenter.blocks import verdict_block

_CTRL_C = "\x03"
_ESCAPE = "\x1b"
_ENTER = ("\r", "\n")
_BACKSPACE = ("\x7f", "\b")


def ask_at_terminal(
    keys: TextIO, screen: TextIO, interrupted: asyncio.Event
) -> Callable[[ApprovalAsked], Awaitable[ApprovalReply]]:
    """Return a function that asks on a plain terminal, outside of a conversation.

    Ctrl-C denies and interrupts.
    """

    async def ask(approval: ApprovalAsked) -> ApprovalReply:
        print(f"? {question_text(approval)}", file=screen)
        choices = f"  {choices_text(approval)}{time_left(approval.expires_s)} "
        print(choices, end="", file=screen, flush=True)
        reply = await _Question(approval, screen, interrupted).ask(keys.fileno())
        print(verdict_block(_answered_event(approval, reply)).text, file=screen, flush=True)
        return reply

    return ask


def _answered_event(approval: ApprovalAsked, reply: ApprovalReply) -> ApprovalAnswered:
    request = approval.request
    return ApprovalAnswered(
        approval.nonce,
        "",
        reply.answer,
        reply.words,
        request.prefix_names if reply.scope == "prefix" else None,
        tuple(request.network) if reply.scope == "network" else (),
        request.server_question.server if request.server_question is not None else "",
        request.recipient if reply.scope == "recipient" else None,
        str(request.folder_access.path)
        if reply.scope == "folder" and request.folder_access is not None
        else "",
    )


class _Question:
    """Approval question at the terminal: the answer is a key, optionally followed by a line."""

    def __init__(self, approval: ApprovalAsked, screen: TextIO, interrupted: asyncio.Event) -> None:
        self._approval = approval
        self._screen = screen
        self._interrupted = interrupted
        self._reply: asyncio.Future[ApprovalReply] = asyncio.get_running_loop().create_future()
        self._choice = KeyChoice(self._decide)
        self._choice.choices = choices_for(approval)
        self._line: str | None = None
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    async def ask(self, terminal: int) -> ApprovalReply:
        loop = asyncio.get_running_loop()
        before = termios.tcgetattr(terminal)
        self._choice.arm()
        try:
            tty.setraw(terminal, termios.TCSAFLUSH)
            _keep_output(terminal)
            loop.add_reader(terminal, lambda: self._take(os.read(terminal, 1)))
            async with asyncio.timeout(self._approval.expires_s):
                return await self._reply
        except TimeoutError:
            return ApprovalReply("deny")
        finally:
            self._choice.take_back()
            loop.remove_reader(terminal)
            termios.tcsetattr(terminal, termios.TCSADRAIN, before)

    def _take(self, data: bytes) -> None:
        key = self._decoder.decode(data) if data else _CTRL_C
        if key == _CTRL_C:
            self._interrupted.set()
            self._settle(ApprovalReply("deny"))
        elif self._line is not None:
            self._write(key, self._line)
        elif not self._choice.press(key):
            self._choice.arm()

    def _write(self, key: str, line: str) -> None:
        """Process a key of the text for the model."""
        if key in _ENTER:
            self._print("\n  ")
            if self._approval.request.server_question is None:
                self._settle(ApprovalReply("deny", line))
            elif line:
                self._settle(ApprovalReply("once", line))
        elif key == _ESCAPE:
            self._line = None
            self._print(f"\n  {choices_text(self._approval)} ")
            self._choice.arm()
        elif key in _BACKSPACE:
            self._line = line[:-1]
            self._print(f"\r\x1b[K  {self._visible(self._line)}")
        elif key.isprintable():
            self._line = line + key
            self._print(self._visible(key))

    def _visible(self, text: str) -> str:
        query = self._approval.request.server_question
        return "•" * len(text) if query is not None and query.is_secret else text

    def _decide(self, choice: QuestionOption) -> None:
        if choice.takes_words:
            self._line = ""
            self._print(f"\n  {words_hint(self._approval)}\n  ")
        else:
            self._settle(ApprovalReply(choice.answer, choice.words, choice.scope))

    def _settle(self, reply: ApprovalReply) -> None:
        if not self._reply.done():
            self._reply.set_result(reply)

    def _print(self, text: str) -> None:
        print(text, end="", file=self._screen, flush=True)


def _keep_output(terminal: int) -> None:
    mode = termios.tcgetattr(terminal)
    mode[tty.OFLAG] |= termios.OPOST
    termios.tcsetattr(terminal, termios.TCSANOW, mode)
