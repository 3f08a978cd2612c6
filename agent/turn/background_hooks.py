"""Hooks that run in the background, and their texts for the next turn of a conversation."""

import asyncio
from collections import OrderedDict
from collections.abc import Coroutine
from typing import Any

from agent.records import frozen
from agent.types import Taint

MAX_RUNNING = 16
_MAX_ANSWERS = 16
_MAX_SESSIONS = 256


@frozen
class LateAnswer:
    """Answer of a hook that ended in the background.

    `words` go to the model, which they taint with `taint`; `notice` is shown to the person.
    """

    words: str
    notice: str
    taint: frozenset[Taint]


class BackgroundHooks:
    """Background hooks of an agent: limited in number, and ended with the agent.

    Their answers are kept in memory for the most recent conversations.
    """

    def __init__(self) -> None:
        # Each task that follows a hook, with the task of the hook's process.
        self._tasks: dict[asyncio.Task[None], asyncio.Task[Any]] = {}
        self._answers: OrderedDict[str, list[LateAnswer]] = OrderedDict()

    @property
    def running(self) -> int:
        """Number of hooks that have not ended."""
        return len(self._tasks)

    @property
    def has_room(self) -> bool:
        return self.running < MAX_RUNNING

    def start(self, process: asyncio.Task[Any], work: Coroutine[Any, Any, None]) -> None:
        """Run the work that follows a hook's process until its end or `aclose`."""
        task = asyncio.create_task(work, name="background hook")
        self._tasks[task] = process
        task.add_done_callback(self._tasks.pop)

    def keep(self, session: str, answer: LateAnswer) -> None:
        """Keep an answer for the next turn of the conversation."""
        answers = self._answers.setdefault(session, [])
        self._answers.move_to_end(session)
        answers.append(answer)
        del answers[:-_MAX_ANSWERS]
        if len(self._answers) > _MAX_SESSIONS:
            self._answers.popitem(last=False)

    def take(self, session: str) -> list[LateAnswer]:
        """Remove and return the answers for the conversation, oldest first."""
        return self._answers.pop(session, [])

    async def aclose(self) -> None:
        """End the hooks with all of their processes."""
        # Tasks of a finished event loop ended with it.
        here = asyncio.get_running_loop()
        pairs = [pair for pair in self._tasks.items() if pair[0].get_loop() is here]
        tasks = {task for pair in pairs for task in pair}
        # A task that is cancelled before its first step cancels nothing else.
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
