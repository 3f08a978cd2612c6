"""Storage of runs: the port and its implementation for the `History` of a library user."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from agent.context.compaction.compactor import Conversation
from agent.context.compaction.marker import CompactionMarker, MarkerRecorder, MarkerStore
from agent.context.memory_snapshot import MemorySnapshot, SnapshotStore
from agent.context.system_prompt import Workspace
from agent.run.history import History
from agent.run.options import check_beginning
from agent.run.prompt import DraftT, PromptDraft
from agent.tools.file_views import FileViews, FileViewStore
from agent.turn.journal import NullJournal, TurnJournal
from agent.turn.request import TurnRequest
from agent.types import Message

OutcomeT = TypeVar("OutcomeT", contravariant=True)


class RunStore(Protocol[DraftT, OutcomeT]):
    """Storage of a run: `begin`, `amend` once or more, the steps of its turns, `finish`."""

    async def begin(self, message: Message | None) -> Conversation:
        """Return the conversation, ending with the message that opens the run.

        `message` is None for a resumed run.
        """
        ...

    async def amend(self, draft: DraftT) -> None:
        """Store the message and the taint of a complete draft before the model reads it."""
        ...

    def steps(self, request: TurnRequest) -> TurnJournal:
        """Return the journal of a turn, which stores each step before the next one begins."""
        ...

    async def finish(self, outcome: OutcomeT) -> object:
        """Store the outcome of the run with the messages that no step has stored."""
        ...


class HistoryRunStore:
    """`RunStore` for a session of a `History`, which stores a run when it ends.

    `initial` are the messages at the beginning of a new session. Summaries, memory snapshots and
    file views are stored if the history supports them.
    """

    def __init__(
        self, history: History, session: str, views: FileViews, initial: Sequence[Message] = ()
    ) -> None:
        self.is_new = False
        self.marker = MarkerRecorder(CompactionMarker())
        self._history = history
        self._session = session
        self._views = views
        self._initial: Sequence[Message] = initial
        self._earlier: Sequence[Message] = ()
        self._message: Message | None = None
        self._stored_marker = self.marker.mark
        self._stored_memory: MemorySnapshot | None = None
        self._memory: MemorySnapshot | None = None

    async def begin(self, message: Message | None) -> Conversation:
        """Raise `ConfigError` if no conversation can begin with the initial messages."""
        history, session = self._history, self._session
        if isinstance(history, FileViewStore) and not self._views.has_any(session):
            self._views.restore(session, await history.file_views(session))
        stored = await history.load(session)
        self.is_new = not stored
        self._initial = check_beginning(self._initial) if self.is_new else []
        self._earlier = stored or self._initial
        if isinstance(history, MarkerStore):
            self.marker.mark = self._stored_marker = await history.mark(session)
        if isinstance(history, SnapshotStore):
            self._stored_memory = await history.memory(session)
        self._message = message
        return self.conversation()

    async def amend(self, draft: PromptDraft) -> None:
        self._message = draft.message

    def steps(self, request: TurnRequest) -> TurnJournal:
        return _HistorySteps(self._replace_message)

    async def finish(self, outcome: Sequence[Message]) -> None:
        """Store the messages of the run, then the data that counts them."""
        await asyncio.shield(self._finish(outcome))

    def conversation(self, new_messages: Sequence[Message] = ()) -> Conversation:
        """Return the model's view of the session, ending with the run's `new_messages`."""
        opening = [] if self._message is None else [self._message]
        return self.marker.mark.conversation([*self._earlier, *opening, *new_messages])

    def take_memory(self, workspace: Workspace) -> None:
        """Load the memory from the start of the session, or the current memory after a summary."""
        if not isinstance(self._history, SnapshotStore):
            return
        path, upto = workspace.owner_memory, self._stored_marker.upto
        stored = self._stored_memory
        if stored is not None and (stored.file, stored.upto) == (str(path), upto):
            self._memory = stored
        elif (text := workspace.memory_snapshot(path)) is not None:
            self._memory = MemorySnapshot(str(path), text, upto)

    def memory_text(self, workspace: Workspace) -> str | None:
        """Return the memory of the session, or None if the prompt reads the file."""
        memory = self._memory
        is_same = memory is not None and memory.file == str(workspace.owner_memory)
        return memory.text if memory is not None and is_same else None

    async def save_views(self) -> None:
        """Store the session's file views."""
        if isinstance(self._history, FileViewStore):
            await asyncio.shield(self._save_views(self._history))

    def _replace_message(self, message: Message) -> None:
        self._message = message

    async def _save_views(self, history: FileViewStore) -> None:
        if (text := self._views.take_stored_form(self._session)) is not None:
            await history.set_file_views(self._session, text)

    async def _finish(self, new_messages: Sequence[Message]) -> None:
        history, session = self._history, self._session
        opening = [] if self._message is None else [self._message]
        await history.append(session, [*self._initial, *opening, *new_messages])
        if isinstance(history, MarkerStore) and self.marker.mark != self._stored_marker:
            await history.set_mark(session, self.marker.mark)
        memory = self._memory
        if memory is not None and memory != self._stored_memory:
            assert isinstance(history, SnapshotStore), "only such a history has a snapshot"
            await history.set_memory(session, memory)


class _HistorySteps(NullJournal):
    """Journal of a turn whose messages are stored in the history at its end."""

    def __init__(self, replace_message: Callable[[Message], None]) -> None:
        self._replace_message = replace_message

    async def replace_prompt(self, message: Message) -> None:
        self._replace_message(message)
