"""What changes on the disk beside Kore's own edits, for a language server that runs."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractContextManager, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from agent.code.lsp.documents import Change, tell_of_changes
from agent.code.lsp.protocol.peer import PeerClosed
from agent.code.lsp.session import LspSession
from agent.settings import LspServerSettings
from agent.tools.file_views import Stamp, stamp

if TYPE_CHECKING:
    from agent.code.watch.changes import ChangeBatch
    from agent.code.watch.project_watches import ChangeSubscription

# Follows the changes in a folder while the block lasts.
FollowFolder = Callable[[Path], AbstractContextManager["ChangeSubscription"]]


class WatchedFiles:
    """Servers do not watch the disk themselves: they rely on being told."""

    def __init__(self, follow: FollowFolder, settings: LspServerSettings) -> None:
        self._follow = follow
        self._extensions = frozenset(settings.extensions)
        self._names = frozenset(settings.root_files)

    @asynccontextmanager
    async def tell(self, session: LspSession, restart: Callable[[], None]) -> AsyncIterator[None]:
        """Tell the session of changes while the block lasts. `restart` is called when not all of
        them are known: a server that starts anew reads the disk."""
        with self._follow(session.folder) as subscription:
            task = asyncio.create_task(
                self._tell(subscription, session, restart), name=f"changes in {session.folder}"
            )
            try:
                yield
            finally:
                task.cancel()
                await asyncio.wait({task})
                if not task.cancelled():
                    task.result()

    async def _tell(
        self, subscription: "ChangeSubscription", session: LspSession, restart: Callable[[], None]
    ) -> None:
        async for batch in subscription:
            if session.peer.is_closed:
                return
            if not batch.is_complete:
                restart()
            document_stamps = {path: one.stamp for path, one in session.documents.items()}
            changes = await asyncio.to_thread(self._relevant, batch, document_stamps)
            try:
                tell_of_changes(session, changes)
            except PeerClosed:
                # The next one that is started reads the disk.
                return

    def _relevant(
        self, batch: "ChangeBatch", document_stamps: Mapping[Path, Stamp | None]
    ) -> Sequence[tuple[Path, Change]]:
        """Of files that the server reads; those that it has open as they are now were edited by
        Kore."""
        return [
            (change.path, change.kind)
            for change in batch.changes
            if change.is_folder
            or change.path.name in self._names
            or (
                change.path.suffix.lower() in self._extensions
                and (
                    change.path not in document_stamps
                    or document_stamps[change.path] != stamp(change.path)
                )
            )
        ]
