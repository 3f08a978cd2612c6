"""One turn: load, run the agent, commit, hand to delivery. Owns the turn's transactions."""

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import aclosing
from dataclasses import replace

from agent.agent import Agent
from agent.changes.recorder import Recording
from agent.history import open_calls
from agent.measure import Speaking
from agent.progress import Stop
from agent.security.links import inert
from agent.security.taint import NOTHING, PRIVATE, UNTRUSTED, Exposure
from agent.turn import Task
from agent.types import Message
from gateway.compaction import Compactions
from gateway.compose import compose
from gateway.delivery import Delivery
from gateway.ending import Ending, answer, closing
from gateway.histories import Histories
from gateway.journal import Journal
from gateway.messages import ONCE, InboundMessage
from gateway.preview import FIRST_AFTER_S, GROUP_EVERY_S, PRIVATE_EVERY_S, Pace, Preview, Shows
from gateway.rules import Rules
from gateway.spending import Spending
from gateway.steering import Steering
from gateway.store import sessions, turns
from gateway.store.claims import Claim
from gateway.store.database import Database
from gateway.store.outbox import Letter
from gateway.store.turns import Outcome
from gateway.store.windows import Window
from gateway.watchers import Watchers


class Turns:
    """Runs claimed turns. One instance serves all lanes."""

    def __init__(
        self,
        database: Database,
        agent: Agent,
        delivery: Delivery,
        watchers: Watchers,
        rules: Rules,
        spending: Spending,
    ) -> None:
        self.histories = Histories(database)
        self.draining = False
        self._database = database
        self._agent = agent
        self._delivery = delivery
        self._watchers = watchers
        self._rules = rules
        self._spending = spending
        self.compactions = Compactions(
            database, agent, self.histories, delivery, watchers, spending, self.speaking
        )

    async def run(
        self, claim: Claim, stop: Stop, has_news: Callable[[], bool] = lambda: True
    ) -> None:
        """Run to the final commit; `has_news` says whether anybody wrote since the claim.

        Raises `Suspended` when the process goes down meanwhile, and `Waiting` when a person has to
        answer first.
        """
        asked = claim.asked or compose(claim.messages)
        window = await self.histories.open(claim.session, asked)
        if not claim.resumed:
            self._agent.toolbox.told(claim.session)
        journal = Journal(
            self._database, claim, window.messages, self._agent.toolbox, lambda: self.draining
        )
        async with self._spending.meter(claim) as meter:
            task = replace(await self._task(claim, window, journal, stop), meter=meter)
            journal.steering = Steering(
                self._database,
                claim,
                task.exposure,
                lambda: claim.resumed or has_news(),
                self._rules.is_stranger,
            )
            journal.recall(task.known)
            if claim.stop_requested:
                stop.request()
            ending = await self._watch(task, claim)
        await self._commit(claim, window, journal, ending, task.exposure)
        self.compactions.consider(claim, window, task.model)

    def facts(self, session: str) -> Sequence[str]:
        """What goes on in the background of a session, for the model."""
        return self._agent.toolbox.facts(session)

    async def give_up(self, claim: Claim, sentence: str) -> None:
        """End a turn that cannot be run; the chat is told."""
        self.histories.forget(claim.session)
        letter = self._letter(claim, sentence)
        await self._database.run(turns.give_up, claim.turn, [letter], sentence, time.time())
        self._delivery.wake(letter.route.lane)

    async def _task(self, claim: Claim, window: Window, journal: Journal, stop: Stop) -> Task:
        message = claim.messages[-1]
        known = {}
        if claim.resumed and open_calls(window.messages):
            known = await self._database.run(turns.known_results, claim.turn)
        speaking = self.speaking(message)
        taint = PRIVATE if self._agent.workspace.is_personal(speaking.memory) else NOTHING
        if any(map(self._rules.is_stranger, claim.messages)):
            taint |= UNTRUSTED
        if not taint <= claim.taint:
            await self._database.run(sessions.add_taint, claim.session, taint)
        limit = message.options.get("max_iterations")
        model = message.options.get("model")
        return Task(
            session=claim.session,
            messages=window.messages,
            permissions=self._rules.permissions(
                claim.messages, claim.session, claim.mode, turn=claim.turn
            ),
            memory=speaking.memory,
            root=speaking.root,
            owner=speaking.owner,
            model=model if isinstance(model, str) else claim.model,
            max_iterations=limit if isinstance(limit, int) else None,
            known=known,
            trimmed=window.trimmed,
            summary=window.summary,
            keeper=self.compactions.keeper(claim, window),
            begun=claim.stored - 1,
            exposure=Exposure(claim.taint | taint),
            recording=Recording(self._agent.changes, claim.turn),
            progress=journal,
            stop=stop,
        )

    def speaking(self, message: InboundMessage) -> Speaking:
        """For whom the prompt is made, and where."""
        rules = self._rules
        owner = rules.access.is_owner_alone(message)
        return Speaking(rules.memory(message), rules.root(message), owner)

    async def _watch(self, task: Task, claim: Claim) -> Ending:
        """Run the agent, and show its events to whoever watches."""
        preview = self._preview(claim, task)
        if preview is None:
            return await self._drain(task, claim, None)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(preview.run(), name=f"preview of {claim.session}")
                try:
                    return await self._drain(task, claim, preview)
                finally:
                    # The group waits for an update under way: the final must know its message.
                    preview.close()
        except BaseExceptionGroup as several:
            raise _first(several) from None

    async def _drain(self, task: Task, claim: Claim, preview: Preview | None) -> Ending:
        lane = claim.messages[-1].session_key
        ending = Ending()
        async with aclosing(self._agent.turn(task)) as stream:
            async for event in stream:
                ending.note(event)
                if preview is not None:
                    preview.feed(event)
                self._watchers.publish(lane, event)
        return ending

    def _preview(self, claim: Claim, task: Task) -> Preview | None:
        message = claim.messages[-1]
        channel = self._delivery.channel(message.route)
        if channel is None or not isinstance(channel, Shows):
            return None
        every_s = PRIVATE_EVERY_S if message.private else GROUP_EVERY_S
        letter = Letter(
            f"t{claim.turn}", message.route, (), "final", _reply_to(claim), message.event_id
        )
        pace = Pace(FIRST_AFTER_S, every_s, lambda text: _harmless(text, task.exposure))
        said = _said_before(task.messages, claim.stored - 1)
        return Preview(self._database, channel, claim.turn, letter, pace, said)

    async def _commit(
        self,
        claim: Claim,
        window: Window,
        journal: Journal,
        ending: Ending,
        exposure: Exposure,
    ) -> None:
        """History, outbox and turn in one transaction; then the sender is woken."""
        assert ending.result is not None, "a turn ends with Done"
        rows = [*ending.result.messages[journal.saved :], *closing(ending)]
        dropped = _whole_rounds(ending.dropped, window.messages)
        letter = self._letter(claim, _harmless(answer(ending), exposure))
        outcome = Outcome(rows, [letter], window.number(dropped - 1) if dropped else 0)
        await self._database.run(turns.finish, claim.turn, claim.session, outcome, time.time())
        journal.keep(rows)
        if dropped:
            window.drop(dropped)
        self._delivery.wake(letter.route.lane)
        if letter.route.lane.startswith(ONCE):
            await self._leave(claim.session)

    async def _leave(self, session: str) -> None:
        """Nobody comes back to a one-shot run: what it left running ends."""
        if not await self._database.run(sessions.is_in_use, session):
            await self._agent.toolbox.end(session)

    def _letter(self, claim: Claim, markdown: str) -> Letter:
        message = claim.messages[-1]
        return Letter(
            delivery_id=f"t{claim.turn}",
            route=message.route,
            parts=self._delivery.render(message.route, markdown),
            reply_to=_reply_to(claim),
            event_id=message.event_id,
        )


def _harmless(markdown: str, exposure: Exposure) -> str:
    """Without links that could carry something private away."""
    return inert(markdown, exposure.is_shown) if exposure.is_dangerous else markdown


def _first(several: BaseExceptionGroup[BaseException]) -> BaseException:
    """The cause: task groups inside each other wrap it more than once."""
    cause: BaseException = several
    while isinstance(cause, BaseExceptionGroup):
        cause = cause.exceptions[0]
    return cause


def _said_before(messages: Sequence[Message], begun: int) -> list[str]:
    """What this turn said before it was put down: it has added the last `begun` messages."""
    since = messages[max(len(messages) - begun, 0) :]
    texts = (message.text.strip() for message in since if message.role == "assistant")
    return [text for text in texts if text]


def _reply_to(claim: Claim) -> str | None:
    """In a group the answer points at its question."""
    message = claim.messages[-1]
    return None if message.private else message.message_id


def _whole_rounds(dropped: int, messages: list[Message]) -> int:
    """The stored window begins with a user message; a cut inside a round is made anew instead."""
    if dropped < len(messages) and messages[dropped].role == "user":
        return dropped
    return 0
