"""Display of running turns on screens and in chats."""

import asyncio
from collections.abc import Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING

from agent import events
from agent.security.taint.taint import TaintState
from agent.subagents import profile
from agent.types import Message
from gateway.channels.base import ability
from gateway.core.errors import AwaitingAnswer
from gateway.core.event_hub import EventHub
from gateway.core.link_defusing import defuse_answer
from gateway.delivery.preview import (
    FIRST_AFTER_S,
    GROUP_INTERVAL_S,
    PRIVATE_INTERVAL_S,
    PreviewTiming,
    StreamingPreview,
    SupportsPreview,
)
from gateway.delivery.renderer import ReplyRenderer
from gateway.store.port import Store
from gateway.store.repositories.delivery.outbox import OutgoingReply
from gateway.store.repositories.execution.claims import TurnClaim
from gateway.store.repositories.execution.subagent_tasks import SubagentTask
from gateway.turns.outcome import TurnOutcome, earlier_texts, root_cause
from gateway.turns.prompt import opening_events

if TYPE_CHECKING:
    # Imported for typing only: an idle gateway does not load the modules of a turn.
    from agent.turn.runner import AgentTurn


class TurnScreens:
    """Runner that displays turns: events for screens, a preview for the chat."""

    def __init__(self, *, database: Store, renderer: ReplyRenderer, events: EventHub) -> None:
        self._database = database
        self._renderer = renderer
        self._events = events

    async def show(
        self,
        turn: "AgentTurn",
        claim: TurnClaim,
        exposure: TaintState,
        earlier_messages: Sequence[Message],
        *,
        is_owner: bool,
    ) -> TurnOutcome:
        """Run a person's turn; `is_owner` means that only the owner reads the answer."""
        outcome = TurnOutcome(is_owner=is_owner, channel=claim.messages[-1].channel)
        preview = self._preview(claim, exposure, earlier_messages)
        if preview is None:
            await self._publish_events(turn, claim, outcome, None)
            return outcome
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(preview.run(), name=f"preview of {claim.session}")
                try:
                    await self._publish_events(turn, claim, outcome, preview)
                except AwaitingAnswer as exc:
                    preview.set_paused(exc.sentence)
                    raise
                finally:
                    # The group waits for a running update, because the final answer needs its
                    # message.
                    preview.close()
        except BaseExceptionGroup as several:
            raise root_cause(several) from None
        outcome.preview_parts = preview.pages
        return outcome

    async def show_subagent(
        self, turn: "AgentTurn", task: SubagentTask, *, is_owner: bool
    ) -> TurnOutcome:
        """Run a sub-agent's turn and show its steps in the chat that it works for."""
        outcome = TurnOutcome(is_owner=is_owner)
        async with aclosing(turn.events()) as stream:
            async for event in stream:
                outcome.observe(event)
                self._publish_step(task, outcome.public_form(event))
        return outcome

    def end(self, claim: TurnClaim) -> None:
        """Notify the screens that the turn is stored."""
        self._events.end_turn(claim.session)

    def show_failure(self, tasks: Sequence[SubagentTask], sentence: str) -> None:
        """Notify the chats of sub-agents about their failure."""
        for task in tasks:
            self._publish_step(task, events.Error("error", sentence, None))

    async def _publish_events(
        self,
        turn: "AgentTurn",
        claim: TurnClaim,
        outcome: TurnOutcome,
        preview: StreamingPreview | None,
    ) -> None:
        lane = claim.messages[-1].session_key
        with self._events.turn(lane, claim.session):
            for opening in opening_events(claim):
                self._events.publish(lane, opening)
            async with aclosing(turn.events()) as stream:
                async for event in stream:
                    outcome.observe(event)
                    if preview is not None:
                        preview.feed(event)
                    if not claim.choices.hides(event):
                        self._events.publish(lane, outcome.public_form(event))

    def _publish_step(self, task: SubagentTask, event: events.Event) -> None:
        step = profile.step_of(task.agent, task.id, task.title, event)
        if step is not None:
            self._events.publish(task.root_lane, step)

    def _preview(
        self, claim: TurnClaim, exposure: TaintState, earlier_messages: Sequence[Message]
    ) -> StreamingPreview | None:
        """Return the preview; None for channels without previews and for jobs."""
        message = claim.messages[-1]
        channel = ability(self._renderer.channel(message.route), SupportsPreview)
        if channel is None or message.job is not None:
            return None
        return StreamingPreview(
            database=self._database,
            channel=channel,
            turn=claim.turn,
            reply=OutgoingReply(
                f"t{claim.turn}", message.route, (), "final", claim.reply_to, message.event_id
            ),
            timing=PreviewTiming(
                FIRST_AFTER_S,
                PRIVATE_INTERVAL_S if message.private else GROUP_INTERVAL_S,
                clean=self._renderer.clean,
                defuse=lambda text: defuse_answer(text, exposure),
            ),
            earlier_texts=earlier_texts(earlier_messages),
        )
