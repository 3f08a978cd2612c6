"""Changes on disk forwarded to a running language server."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractContextManager, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from agent.code.lsp.documents import Change, notify_changes
from agent.code.lsp.protocol.peer import PeerClosed
from agent.code.lsp.session import LspSession
from agent.settings import LspServerSettings
from agent.tools.file_views import Stamp, stamp

if TYPE_CHECKING:
    from agent.code.watch.changes import ChangeBatch
    from agent.code.watch.project_watches import ChangeSubscription

# Follows the changes in a folder while the context is open.
FollowFolder = Callable[[Path], AbstractContextManager["ChangeSubscription"]]


class WatchedFiles:
    """Forwards file changes to a server: servers do not watch the disk themselves."""

    def __init__(self, follow: FollowFolder, settings: LspServerSettings) -> None:
        self._follow = follow
        self._extensions = frozenset(settings.extensions)
        self._names = frozenset(settings.root_files)

    @asynccontextmanager
    async def forward(
        self, session: LspSession, restart: Callable[[], None]
    ) -> AsyncIterator[None]:
        """Forward changes to the session while the context is open.

        `restart` is called when some changes were lost: a restarted server reads the disk.
        """
        with self._follow(session.folder) as subscription:
            task = asyncio.create_task(
                self._forward(subscription, session, restart), name=f"changes in {session.folder}"
            )
            try:
                yield
            finally:
                task.cancel()
                await asyncio.wait({task})
                if not task.cancelled():
                    task.result()

    async def _forward(
        self, subscription: "ChangeSubscription", session: LspSession, restart: Callable[[], None]
    ) -> None:
        async for batch in subscription:
            if session.peer.is_closed:
                return
            if not batch.is_complete:
                restart()
            document_stamps = {path: document.stamp for path, document in session.documents.items()}
            changes = await asyncio.to_thread(self._relevant, batch, document_stamps)
            try:
                notify_changes(session, changes)
            except PeerClosed:
                # The next server reads the disk when it starts.
                return

    def _relevant(
        self, batch: "ChangeBatch", document_stamps: Mapping[Path, Stamp | None]
    ) -> Sequence[tuple[Path, Change]]:
        """Return the changes of files that the server reads.

        Open documents that equal their file are left out: Kore itself edited them.
        """
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
