"""How a turn reports what must survive a crash, and how it is asked to stop."""

import asyncio
from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

from agent.types import Effect, Message, ToolCall, ToolResult


class TurnJournal(Protocol):
    """Told of each step before the next one begins; the gateway's turn makes them durable.

    Each method returns when its step is on disk. An exception ends the turn where it is: the
    history stays as it was journaled.
    """

    async def reply(self, message: Message) -> None:
        """The model's reply, with its planned calls."""
        ...

    async def start(self, call: ToolCall, effect: Effect) -> None:
        """The call is about to run: allowed, but nothing has happened yet."""
        ...

    async def finish(self, call: ToolCall, result: ToolResult) -> None: ...

    async def add(self, messages: Sequence[Message]) -> None:
        """Messages that no model call made: what a hook says, behind a reply without calls that it
        answers."""
        ...

    async def replace_prompt(self, message: Message) -> None:
        """In place of what the turn began with: a hook keeps that from the model."""
        ...


@runtime_checkable
class SteeringSource(Protocol):
    """Progress that also hands in what people say while the turn runs."""

    async def take_new_messages(self) -> Sequence[Message]:
        """Messages for the end of the conversation, before the next model call; on disk already.

        Every call of the last reply has its result by then.
        """
        ...


@runtime_checkable
class Interrupts(Protocol):
    """Progress that may hand in messages while the model still answers."""

    async def interrupted(self) -> Sequence[Message]:
        """As `take_new_messages`, asked often. With messages, the model is asked anew, and what
        it has said of this reply is dropped."""
        ...


class NullJournal:
    """For library users, whose history is kept when the turn ends."""

    async def reply(self, message: Message) -> None: ...

    async def start(self, call: ToolCall, effect: Effect) -> None: ...

    async def finish(self, call: ToolCall, result: ToolResult) -> None: ...

    async def add(self, messages: Sequence[Message]) -> None: ...

    async def replace_prompt(self, message: Message) -> None: ...


class CancelToken:
    """Ends a running turn from outside: its model stream and its tools stop at once.

    Unlike a cancelled task, a stopped turn still comes to a `Result`, with a valid history.
    """

    def __init__(self) -> None:
        self.requested = False
        self._task: asyncio.Task[Any] | None = None

    def request(self) -> None:
        """Asking twice is asking once: the clean-up after the first is not cut short."""
        if not self.requested and self._task is not None:
            self._task.cancel()
        self.requested = True

    def bind(self, task: asyncio.Task[Any]) -> None:
        """Names the task that a request cancels, also one that was made before."""
        self._task = task
        if self.requested:
            task.cancel()
