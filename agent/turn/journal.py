"""Interfaces for durable turn progress, steering and cancellation."""

import asyncio
from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

from agent.types import Effect, Message, ToolCall, ToolResult


class TurnJournal(Protocol):
    """Receiver for each step of a turn before the next step begins.

    The gateway's implementation makes the steps durable: each method returns when its step is on
    disk. An exception ends the turn at once, and the history remains as journaled.
    """

    async def reply(self, message: Message) -> None:
        """Record the model's reply with its planned calls."""
        ...

    async def start(self, call: ToolCall, effect: Effect) -> None:
        """Record that an allowed call is about to run; it has had no effect yet."""
        ...

    async def finish(self, call: ToolCall, result: ToolResult) -> None: ...

    async def add(self, messages: Sequence[Message]) -> None:
        """Record messages that no model call produced.

        Example: the text of a hook, preceded by the reply without calls that it answers.
        """
        ...

    async def replace_prompt(self, message: Message) -> None:
        """Replace the prompt of the turn, which a hook withholds from the model."""
        ...


@runtime_checkable
class SteeringSource(Protocol):
    """Optional capability of a journal: supply messages that people send during the turn."""

    async def take_new_messages(self) -> Sequence[Message]:
        """Return messages to append before the next model call; they are already on disk.

        Every call of the last reply has its result by then.
        """
        ...


@runtime_checkable
class Interrupts(Protocol):
    """Optional capability of a journal: supply messages during a model reply."""

    async def interrupted(self) -> Sequence[Message]:
        """Return new messages like `take_new_messages`; called often.

        If there are messages, the partial reply is dropped and the model is called again.
        """
        ...


class NullJournal:
    """Journal for library users, whose history is stored at the end of the turn."""

    async def reply(self, message: Message) -> None: ...

    async def start(self, call: ToolCall, effect: Effect) -> None: ...

    async def finish(self, call: ToolCall, result: ToolResult) -> None: ...

    async def add(self, messages: Sequence[Message]) -> None: ...

    async def replace_prompt(self, message: Message) -> None: ...


class CancelToken:
    """Token that cancels a running turn with its model stream and tools.

    Unlike a cancelled task, a cancelled turn still returns a `Result` with a valid history.
    """

    def __init__(self) -> None:
        self.requested = False
        self._task: asyncio.Task[Any] | None = None

    def request(self) -> None:
        """Cancel the turn; further requests are ignored and do not interrupt the clean-up."""
        if not self.requested and self._task is not None:
            self._task.cancel()
        self.requested = True

    def bind(self, task: asyncio.Task[Any]) -> None:
        """Set the task to cancel; cancel it at once if a request was made before."""
        self._task = task
        if self.requested:
            task.cancel()
