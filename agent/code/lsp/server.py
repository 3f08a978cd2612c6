"""Language server for one folder, started on demand and restarted after a failure."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    asynccontextmanager,
    nullcontext,
)
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from agent.code.lsp.compilation_database import CompilationDatabase
from agent.code.lsp.documents import Change, notify_changes
from agent.code.lsp.protocol.peer import PeerClosed, ResponseError
from agent.code.lsp.session import LspSession
from agent.code.status import ServerState, ServerStatus
from agent.errors import ToolError
from agent.settings import LspServerSettings
from agent.text.visible import escape_line
from agent.tools.file_views import Stamp, stamp

if TYPE_CHECKING:
    from agent.code.watch.changes import ChangeBatch
    from agent.code.watch.project_watches import ChangeSubscription

log = logging.getLogger(__name__)


# Follows the changes in a folder while the context is open.
FollowFolder = Callable[[Path], AbstractContextManager["ChangeSubscription"]]


class WatchedFiles:
    """Forwarder of file changes to a server: servers do not watch the disk themselves."""

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

        Open documents that equal their file are left out: Kore itself edited them. So are drafts,
        which may be about to be written: they are compared with the disk before the next request.
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
                    or document_stamps[change.path] not in (None, stamp(change.path))
                )
            )
        ]


T = TypeVar("T")

START_TIMEOUT_S = 30.0
# Pause after the first failure; doubled after each further failure.
_MIN_RETRY_INTERVAL_S = 1.0
_MAX_RETRY_INTERVAL_S = 300.0
# A server that ran this long did not fail at startup.
_MIN_STABLE_S = 60.0
_CLOSE_TIMEOUT_S = 5.0
_SHUTDOWN_TIMEOUT_S = 1.0
_MAX_REASON_CHARS = 300
# A server that owes an answer and sends nothing for this long hangs; until then, it is only slow.
_SILENCE_TIMEOUT_S = 60.0

# Start the program and return its input; `feed` receives its output, `on_end` runs at its end.
OpenServer = Callable[
    [Callable[[bytes], None], Callable[[], Awaitable[None]]],
    AbstractAsyncContextManager[asyncio.StreamWriter],
]


class LanguageServer:
    """Language server whose process is owned by a separate task.

    `last_words` returns the end of its error output.
    """

    def __init__(
        self,
        settings: LspServerSettings,
        folder: Path,
        open_server: OpenServer,
        last_words: Callable[[], str],
        idle_s: float,
        watched: WatchedFiles | None = None,
    ) -> None:
        # Set for a server that needs one.
        self.database: CompilationDatabase | None = None
        self.settings = settings
        self.folder = folder
        self.state: ServerState = "idle"
        self.failure = ""
        # One request at a time: an answer must refer to a known text.
        self.turn = asyncio.Lock()
        self._open_server = open_server
        self._last_words = last_words
        self._idle_s = idle_s
        self._watched = watched
        # True if the server missed changes on disk.
        self._is_outdated = False
        self._session: LspSession | None = None
        self._owner: asyncio.Task[None] | None = None
        self._opened: asyncio.Future[LspSession] | None = None
        self._closing = asyncio.Event()
        self._failures = 0
        self._pause_until_s = 0.0
        self._used_at = time.monotonic()
        self._in_use = 0
        # Time since which the server owes an answer to an abandoned request and is silent.
        self._silent_since: float | None = None

    @property
    def status(self) -> ServerStatus:
        documents = len(self._session.documents) if self._session is not None else 0
        return ServerStatus(self.settings.name, self.folder, self.state, self.failure, documents)

    @property
    def running(self) -> LspSession | None:
        """Session, while the server is running."""
        return self._session if self.state == "ready" else None

    async def ask(
        self, operation: str, work: Callable[[LspSession], Awaitable[T]], limit_s: float
    ) -> T:
        """Return the result of `work` with a running server, which is started if necessary.

        Raises `ToolError` with a sentence for the model if the server does not start, refuses,
        ends, or takes longer than `limit_s` for its start or for the work.
        """
        name = self.settings.name
        began_at = time.monotonic()
        self._in_use += 1
        try:
            async with asyncio.timeout(limit_s):
                session = await self._ready()
            async with asyncio.timeout(limit_s):
                return await work(session)
        except TimeoutError:
            self._end_if_hanging(began_at)
            raise ToolError(
                f"The language server {name} did not answer {operation} within {limit_s:g} s."
            ) from None
        except ResponseError as exc:
            if exc.is_unknown_method:
                # A server may announce more than it supports: clangd 14 announces all call
                # hierarchies.
                raise ToolError(f"This language server has no {operation}.") from exc
            raise ToolError(
                f"The language server {name} refused {operation}: {_shorten(str(exc))}"
            ) from exc
        except PeerClosed as exc:
            words = _shorten(self.failure or str(exc))
            raise ToolError(
                f"The language server {name} ended during {operation}: {words}"
            ) from exc
        finally:
            self._in_use -= 1
            self._used_at = time.monotonic()
            self._end_if_outdated()

    def _end_if_hanging(self, began_at: float) -> None:
        """End a server that owes an answer and has been silent for too long; the next call restarts
        it.
        """
        if self._session is None:
            return
        if self._silent_since is None or self._session.peer.last_message_at > self._silent_since:
            self._silent_since = max(began_at, self._session.peer.last_message_at)
        if time.monotonic() - self._silent_since >= _SILENCE_TIMEOUT_S:
            self.failure = f"It has sent nothing for {_SILENCE_TIMEOUT_S:g} s."
            self._closing.set()

    def _watch_changes(self, session: LspSession) -> AbstractAsyncContextManager[None]:
        self._is_outdated = False
        if self._watched is None:
            return nullcontext()
        return self._watched.forward(session, self._mark_outdated)

    def _mark_outdated(self) -> None:
        self._is_outdated = True
        self._end_if_outdated()

    def _end_if_outdated(self) -> None:
        """End an outdated server once it is not in use; the next call restarts it."""
        if self._is_outdated and not self._in_use:
            self._closing.set()

    def end_if_idle(self) -> bool:
        """End the server if it is idle. Return whether its task is still running."""
        if self._owner is None or self._owner.done():
            return False
        if not self._in_use and time.monotonic() - self._used_at >= self._idle_s:
            self._closing.set()
        return True

    def retire(self) -> None:
        """End the server without waiting. Safe to call from any thread."""
        owner = self._owner
        if owner is not None and not owner.done() and not owner.get_loop().is_closed():
            owner.get_loop().call_soon_threadsafe(self._closing.set)

    async def aclose(self) -> None:
        """End the server and wait for it."""
        owner, self._owner = self._owner, None
        if owner is None or owner.get_loop() is not asyncio.get_running_loop():
            return
        self._closing.set()
        if self.state == "starting":
            owner.cancel()
        await asyncio.wait({owner}, timeout=_CLOSE_TIMEOUT_S)
        owner.cancel()
        await asyncio.wait({owner})

    async def _ready(self) -> LspSession:
        """Return the session, starting the server if necessary; concurrent calls share one
        start."""
        loop = asyncio.get_running_loop()
        while self._closing.is_set() and (owner := self._live_owner(loop)) is not None:
            # Wait for a server that is ending before starting the next.
            await asyncio.wait({owner}, timeout=_CLOSE_TIMEOUT_S)
            owner.cancel()
        if self._live_owner(loop) is None:
            if (wait_s := self._pause_until_s - time.monotonic()) > 0:
                raise ToolError(
                    f"The language server {self.settings.name} is not available: {self.failure} "
                    f"It is tried again in {wait_s:.0f} s."
                )
            self._closing, self.turn = asyncio.Event(), asyncio.Lock()
            self._opened = loop.create_future()
            # There may be no caller left if the start fails.
            self._opened.add_done_callback(_retrieve)
            self.state = "starting"
            self._owner = asyncio.create_task(
                self._own(self._opened, self._closing), name=f"language server {self.settings.name}"
            )
        assert self._opened is not None
        return await asyncio.shield(self._opened)

    def _live_owner(self, loop: asyncio.AbstractEventLoop) -> asyncio.Task[None] | None:
        owner = self._owner
        if owner is None or owner.done() or owner.get_loop() is not loop:
            return None
        return owner

    async def _own(self, opened: "asyncio.Future[LspSession]", closing: asyncio.Event) -> None:
        """Run the process until it fails or is asked to end."""
        session = LspSession(self.folder, self.settings.settings)
        started_s = time.monotonic()

        async def on_end() -> None:
            session.close()
            closing.set()

        try:
            async with self._open_server(session.peer.feed, on_end) as writer:
                session.peer.connect(writer)
                await session.initialize(self.settings.options, START_TIMEOUT_S)
                self._session, self.state, self.failure = session, "ready", ""
                opened.set_result(session)
                async with self._watch_changes(session):
                    await closing.wait()
                await self._shut_down(session)
        except (TimeoutError, ResponseError, PeerClosed, OSError, ToolError) as exc:
            self._note_failure(exc)
            if not opened.done():
                opened.set_exception(
                    ToolError(
                        f"The language server {self.settings.name} could not be started: "
                        f"{self.failure}"
                    )
                )
        finally:
            self._session = None
            session.close()
            if not opened.done():
                opened.cancel()
            if self.state == "ready":
                self._note_end(session, time.monotonic() - started_s)
            elif self.state == "starting":
                self.state = "idle"

    def _note_end(self, session: LspSession, lasted_s: float) -> None:
        """Note the end of a running server and its failure, unless Kore ended it."""
        self.state = "idle"
        if not session.is_shut_down:
            self.failure = self.failure or _shorten(self._last_words()) or "It ended unexpectedly."
            if lasted_s >= _MIN_STABLE_S:
                self._failures = 0
            self._pause()

    async def _shut_down(self, session: LspSession) -> None:
        """Shut down as the protocol requires; the process is killed right after."""
        if session.peer.is_closed:
            return
        session.is_shut_down = True
        try:
            await session.peer.request("shutdown", None, _SHUTDOWN_TIMEOUT_S)
            session.peer.notify("exit", None)
        except (TimeoutError, ResponseError, PeerClosed) as exc:
            log.debug("language server %s at its end: %s", self.settings.name, exc)

    def _note_failure(self, exc: BaseException) -> None:
        if isinstance(exc, TimeoutError):
            self.failure = f"It did not start within {START_TIMEOUT_S:g} s."
        else:
            self.failure = _shorten(self._last_words()) or _shorten(str(exc))
        self.state = "failed"
        self._pause()

    def _pause(self) -> None:
        pause_s = min(_MIN_RETRY_INTERVAL_S * 2**self._failures, _MAX_RETRY_INTERVAL_S)
        self._failures += 1
        self._pause_until_s = time.monotonic() + pause_s


def _shorten(text: str) -> str:
    line = escape_line(" ".join(text.split()))
    return line if len(line) <= _MAX_REASON_CHARS else f"{line[: _MAX_REASON_CHARS - 1]}…"


def _retrieve(opened: "asyncio.Future[LspSession]") -> None:
    if not opened.cancelled():
        opened.exception()
