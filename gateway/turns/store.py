"""Storage of claimed turns: the window, the prompt, each step and the final commit."""

from collections.abc import Callable
from dataclasses import dataclass

from agent.agent import Agent
from agent.context.compaction.compactor import Conversation
from agent.run.prompt import PromptDraft
from agent.turn.request import TurnRequest
from agent.types import Message
from gateway.core.messages import InboundMessage
from gateway.sessions.window_cache import SessionWindowCache
from gateway.store.port import Store, Transaction
from gateway.store.repositories.conversations import sessions
from gateway.store.repositories.execution.claims import TurnClaim
from gateway.store.repositories.execution.subagent_tasks import SubagentTask
from gateway.store.repositories.execution.windows import SessionWindow
from gateway.turns.commit import EndedTurn, TurnCommitter
from gateway.turns.isolation import Isolation
from gateway.turns.journal import Steering, StoreTurnJournal
from gateway.turns.outcome import TurnOutcome
from gateway.turns.permissions import TurnPermissions
from gateway.turns.prompt import is_said


@dataclass(slots=True, kw_only=True)
class TurnStores:
    """Factory for turn stores. While `is_draining`, turns are suspended at their next step."""

    database: Store
    agent: Agent
    permissions: TurnPermissions
    windows: SessionWindowCache
    isolation: Isolation
    committer: TurnCommitter
    needs_own_turn: Callable[[InboundMessage], bool]
    is_draining: bool = False

    async def pin(self, session: str) -> None:
        """Pin a session whose turn is suspended or over; see `BackgroundWork.pin`."""
        await self.committer.background.pin(session)

    def evict(self, session: str) -> None:
        """Discard the session's window, because its turn did not end normally."""
        self.windows.evict(session)


class TurnStore:
    """Implements `RunStore` for one claimed turn; `has_news` returns whether messages have arrived.

    `window` and `memory_text` exist after `begin` and `amend`; `earlier_messages`, added by the
    turn before a restart, exist after `steps`.
    """

    window: SessionWindow
    memory_text: str | None = None
    _message: Message
    earlier_messages: list[Message]
    _request: TurnRequest
    _journal: StoreTurnJournal

    def __init__(
        self,
        stores: TurnStores,
        claim: TurnClaim,
        subagent_tasks: list[SubagentTask],
        has_news: Callable[[], bool],
    ) -> None:
        self._stores = stores
        self._claim = claim
        self._subagent_tasks = subagent_tasks
        self._has_news = has_news
        self._taint = claim.taint
        self._may_renew_bits = not claim.resumed and claim.bits > 0

    async def begin(self, message: Message | None) -> Conversation:
        stores, claim = self._stores, self._claim
        stores.agent.toolbox.views.restore(claim.session, claim.file_views)
        self.window = await stores.windows.open(claim.session, message)
        self._message = self.window.messages[-1]
        return self.window.conversation

    async def amend(self, draft: PromptDraft) -> None:
        """Store changes of the message, the taint and the memory in one transaction."""
        claim = self._claim
        is_changed = draft.message is not self._message
        renews_bits, self._may_renew_bits = (
            self._may_renew_bits and self._answers_trusted_person(),
            False,
        )
        memory = self._new_memory(draft)

        def store(tx: Transaction) -> None:
            if is_changed:
                sessions.amend(tx, claim.session, claim.turn, draft.message)
            sessions.add_taint(tx, claim.session, draft.taint)
            if renews_bits:
                sessions.renew_bits(tx, claim.session)
            if memory is not None:
                sessions.save_memory(tx, claim.session, str(draft.audience.memory), memory)

        if is_changed or renews_bits or memory is not None or not draft.taint <= self._taint:
            await self._stores.database.transact(store)
            self._taint = draft.taint
        if is_changed:
            self._message = self.window.messages[-1] = draft.message

    def steps(self, request: TurnRequest) -> StoreTurnJournal:
        stores, claim, messages = self._stores, self._claim, self.window.messages
        steering = Steering(
            database=stores.database,
            claim=claim,
            taint_state=request.exposure,
            has_new_messages=(lambda: True) if claim.resumed else self._has_news,
            is_untrusted=stores.permissions.is_untrusted,
            is_command=stores.needs_own_turn,
        )
        self._request = request
        self._journal = StoreTurnJournal(
            database=stores.database,
            claim=claim,
            history=messages,
            toolbox=stores.agent.toolbox,
            steering=steering,
            is_draining=lambda: stores.is_draining,
            on_step=lambda: stores.isolation.leave(claim.messages[-1].session_key),
        )
        self._journal.recall(request.known)
        self.earlier_messages = messages[max(len(messages) - claim.stored + 1, 0) :]
        return self._journal

    async def finish(self, outcome: TurnOutcome) -> bool:
        """Commit the turn. Return whether messages wait in its lane."""
        claim, permissions = self._claim, self._stores.permissions
        ended = EndedTurn(
            claim,
            self._request,
            self.window,
            self._journal,
            self._subagent_tasks,
            self.earlier_messages,
            permissions.plan_choices(claim.messages[-1], claim.mode),
            permissions.may_keep_skill(claim.messages, claim.mode),
        )
        has_more = await self._stores.committer.commit(ended, outcome)
        self._stores.windows.count(claim.session)
        return has_more

    def _answers_trusted_person(self) -> bool:
        """Return whether a trusted person sent one of the messages."""
        is_untrusted = self._stores.permissions.is_untrusted
        return any(
            is_said(message) and not is_untrusted(message) for message in self._claim.messages
        )

    def _new_memory(self, draft: PromptDraft) -> str | None:
        """Load the memory from the start of the session. Return its text if it is not stored yet.

        A sub-agent reads the file instead.
        """
        if self.memory_text is not None or not draft.reads_workspace:
            return None
        stored, path = self._claim.memory, draft.audience.memory
        if stored is not None and stored.file == str(path):
            self.memory_text = stored.text
            return None
        self.memory_text = self._stores.agent.workspace.memory_snapshot(path)
        return self.memory_text
