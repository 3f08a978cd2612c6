"""Durable journal of a turn, and steering: messages that people send during the turn.

Each step is on disk before the next one begins.
"""

import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agent.context.history_validation import close_unanswered_calls, result_message
from agent.security.taint.taint import NOTHING, UNTRUSTED, TaintState
from agent.tools.registry import ToolRegistry
from agent.types import Effect, Message, Taint, ToolCall, ToolResult
from gateway.core.errors import TurnSuspended
from gateway.core.messages import InboundMessage
from gateway.core.tasks import run_to_completion
from gateway.store.port import Store
from gateway.store.repositories.conversations import sessions
from gateway.store.repositories.conversations.session_marks import taint_of_text
from gateway.store.repositories.execution import turns
from gateway.store.repositories.execution.claims import Joining, TurnClaim, join_running_turn
from gateway.turns.prompt import build_user_message, is_said, shown_taint

# Time during which further messages belong to the first one, if messages are joined: an answer that
# has just begun is restarted.
BURST_S = 5.0


@dataclass(slots=True, kw_only=True)
class Steering:
    """Steering of one turn.

    `has_new_messages` returns whether messages have arrived since the claim. A person who steers a
    turn becomes one of its speakers: the policy, questions and taint of the turn include them, also
    after a restart, because the inbox rows belong to the turn.
    """

    database: Store
    claim: TurnClaim
    taint_state: TaintState
    has_new_messages: Callable[[], bool]
    is_untrusted: Callable[[InboundMessage], bool]
    is_command: Callable[[InboundMessage], bool]
    began_at: float = field(default_factory=time.monotonic)
    _accepts_burst: bool = True

    def is_burst(self) -> bool:
        """Return whether messages arrived so soon that they may belong to the question."""
        soon = time.monotonic() - self.began_at < BURST_S
        return self._accepts_burst and soon and not self.claim.resumed and self.has_new_messages()

    async def absorb_new_messages(
        self, results: Sequence[Message], *, burst: bool = False
    ) -> list[Message]:
        """Store new messages and return the messages appended to the history, `results` first."""
        claim = self.claim
        joining = Joining(self.is_command, build_user_message, self._taint, burst=burst)
        steered_messages = await self.database.transact(
            join_running_turn, claim, results, joining, time.time()
        )
        if steered_messages is None:
            # In a burst, a command comes first, or messages are not joined here.
            self._accepts_burst = not burst
            return []
        if any(
            is_said(message) and not self.is_untrusted(message)
            for message in steered_messages.messages
        ):
            await self.database.transact(sessions.renew_bits, claim.session)
        # Before the model reads any of the messages.
        claim.messages.extend(steered_messages.messages)
        self.taint_state.taint |= steered_messages.taint
        return steered_messages.stored

    def _taint(self, messages: Sequence[InboundMessage]) -> frozenset[Taint]:
        taint = UNTRUSTED if any(map(self.is_untrusted, messages)) else NOTHING
        marks = [
            name for message in messages if message.is_report for name in message.options.taint
        ]
        return taint | taint_of_text(",".join(marks)) | shown_taint(messages)


class StoreTurnJournal:
    """Implements `TurnJournal` and `SteeringSource` for one turn.

    `history` is the session's window; stored messages are appended to it. `stored_messages` counts
    the new messages that are already stored; the final commit adds the rest. `on_step` is called
    after each step.
    """

    def __init__(  # noqa: PLR0913 - its collaborators, named once in the runner
        self,
        *,
        database: Store,
        claim: TurnClaim,
        history: list[Message],
        toolbox: ToolRegistry,
        steering: Steering,
        is_draining: Callable[[], bool],
        on_step: Callable[[], None] = lambda: None,
    ) -> None:
        self.stored_messages = 0
        self._database = database
        self._claim = claim
        self._history = history
        self._toolbox = toolbox
        self._steering = steering
        self._is_draining = is_draining
        self._on_step = on_step
        self._results: dict[str, Message] = {}

    def recall(self, results: Mapping[str, ToolResult]) -> None:
        """Add results from before a restart, by call id."""
        for call_id, result in results.items():
            self._results[call_id] = result_message(call_id, result)

    async def reply(self, message: Message) -> None:
        """Store a reply with calls; the final commit stores a reply without calls."""
        if not message.tool_calls:
            return
        rows = [*close_unanswered_calls(self._history, self._results), message]
        effects = {call.id: self._effect(call) for call in message.tool_calls}
        claim = self._claim
        work = self._database.transact(
            turns.add_reply, claim.turn, claim.session, rows, effects, time.time()
        )
        # Count the stored rows even if the turn is stopped in the meantime.
        await run_to_completion(self._store_rows(work, rows))

    async def start(self, call: ToolCall, effect: Effect) -> None:
        if self._is_draining():
            raise TurnSuspended
        # A read has no effect that must be known after a crash.
        if effect != "read":
            await self._database.transact(turns.start_call, self._claim.turn, call)

    async def finish(self, call: ToolCall, result: ToolResult) -> None:
        self._results[call.id] = result_message(call.id, result)
        await self._database.transact(turns.finish_call, self._claim.turn, call, result)
        self._on_step()

    async def add(self, messages: Sequence[Message]) -> None:
        rows = [*close_unanswered_calls(self._history, self._results), *messages]
        claim = self._claim
        work = self._database.transact(
            turns.add_reply, claim.turn, claim.session, rows, {}, time.time()
        )
        await run_to_completion(self._store_rows(work, rows))

    async def replace_prompt(self, message: Message) -> None:
        claim = self._claim
        await self._database.transact(sessions.amend, claim.session, claim.turn, message)
        self._history[-1] = message

    async def take_new_messages(self) -> Sequence[Message]:
        """Return messages that arrived during the turn."""
        if self._is_draining() or not self._steering.has_new_messages():
            return ()
        results = close_unanswered_calls(self._history, self._results)
        # Count the messages of the turn even if it is stopped in the meantime.
        grown = await run_to_completion(self._absorb(self._steering.absorb_new_messages(results)))
        return grown[len(results) :]

    async def interrupted(self) -> Sequence[Message]:
        """Return messages that followed the first one at once, before anything was done."""
        if self._is_draining() or not self._steering.is_burst():
            return ()
        return await run_to_completion(
            self._absorb(self._steering.absorb_new_messages((), burst=True))
        )

    async def _absorb(self, work: Coroutine[Any, Any, list[Message]]) -> list[Message]:
        grown = await work
        if grown:
            self.mark_stored(grown)
        return grown

    async def _store_rows(self, work: Coroutine[Any, Any, None], rows: list[Message]) -> None:
        await work
        self.mark_stored(rows)

    def mark_stored(self, rows: list[Message]) -> None:
        """Record that the rows are on disk."""
        self._history.extend(rows)
        self.stored_messages += len(rows)
        self._results.clear()
        self._on_step()

    def _effect(self, call: ToolCall) -> Effect:
        return self._toolbox.effect(call.name)
