"""What runs in the background of conversations: who is told of it, and where it ends."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from agent.agent import Agent
from agent.events import Notice
from agent.i18n import t
from agent.text.visible import escape_invisible
from agent.tools.base import BackgroundTask
from agent.types import Context, Message
from gateway.core.event_hub import EventHub
from gateway.store.port import Store
from gateway.store.repositories.conversations import sessions
from gateway.store.repositories.execution.claims import TurnClaim


def stopped_tasks_text(tasks: Iterable[BackgroundTask], escape: Callable[[str], str] = str) -> str:
    """A sentence about what ends with its conversation; '' when nothing does."""
    names = [escape(escape_invisible(task.title)) for task in tasks if task.is_running]
    return t("Background tasks stopped: {names}.", names=", ".join(names)) if names else ""


class BackgroundWork:
    """The work that tools go on with between turns."""

    def __init__(self, *, agent: Agent, database: Store, events: EventHub) -> None:
        self._agent = agent
        self._database = database
        self._events = events

    async def with_background_notes(self, claim: TurnClaim, question: Message) -> Message:
        """What a new turn begins with: what was asked, and what goes on in its session, which
        counts as told from here on. Not a part of the claim, since it asks the disk."""
        toolbox = self._agent.toolbox
        if facts := await toolbox.facts(claim.session):
            question = replace(
                question, content=(*question.content, Context(f"[{'; '.join(facts)}]"))
            )
            await self._database.transact(sessions.amend, claim.session, claim.turn, question)
        toolbox.mark_reported(claim.session)
        return question

    def running(self, session: str) -> Sequence[str]:
        """The same for people: what runs there, as they call it."""
        if not self._agent.has_tools:
            return []
        return [task.title for task in self._agent.toolbox.tasks(session) if task.is_running]

    async def end(self, session: str) -> str:
        """Let go of all that a session holds; a sentence about what has run there, or ''."""
        if not self._agent.has_tools:
            return ""
        sentence = stopped_tasks_text(self._agent.toolbox.tasks(session))
        await self._agent.toolbox.end(session)
        return sentence

    async def close_if_abandoned(self, session: str, lane: str) -> bool:
        """Whether no turn returns to a session whose one-shot run is over: what it left running
        has to end then, and the watching screens are told."""
        if await self._database.transact(sessions.is_in_use, session):
            return False
        if sentence := stopped_tasks_text(self._agent.toolbox.tasks(session)):
            self._events.publish(lane, Notice("info", sentence))
        return True
