"""One language server for one folder: started when it is first needed, asked, started anew when it
was lost, ended when nobody has asked for a while."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from pathlib import Path
from typing import TypeVar

from agent.code.lsp.protocol.peer import PeerClosed, ResponseError
from agent.code.lsp.session import LspSession
from agent.code.lsp.watched_files import WatchedFiles
from agent.code.status import ServerState, ServerStatus
from agent.errors import ToolError
from agent.settings import LspServerSettings
from agent.text.visible import escape_line

log = logging.getLogger(__name__)
T = TypeVar("T")

START_S = 30.0
# Behind a failure a server is left alone for so long, twice as long each time.
_FIRST_PAUSE_S = 1.0
_LONGEST_PAUSE_S = 300.0
# One that worked for so long has not failed at its start.
_STEADY_S = 60.0
_CLOSE_S = 5.0
_SHUTDOWN_S = 1.0
_REASON_CHARS = 300
# One that was asked and says nothing at all for so long hangs; until then it is only slow.
_HANGS_S = 60.0

# Starts the program: its input, while `feed` takes its output and `on_end` is awaited at its end.
OpenServer = Callable[
    [Callable[[bytes], None], Callable[[], Awaitable[None]]],
    AbstractAsyncContextManager[asyncio.StreamWriter],
]


class LanguageServer:
    """`last_words` say why it ended. A task of its own starts and ends the program."""

    def __init__(
        self,
        settings: LspServerSettings,
        folder: Path,
        open_server: OpenServer,
        last_words: Callable[[], str],
        idle_s: float,
        watched: WatchedFiles | None = None,
    ) -> None:
        self.settings = settings
        self.folder = folder
        self.state: ServerState = "idle"
        self.failure = ""
        # One edit at a time: what is found must be said of one text.
        self.turn = asyncio.Lock()
        self._open_server = open_server
        self._last_words = last_words
        self._idle_s = idle_s
        self._watched = watched
        # Not all that has changed on the disk is known to it.
        self._is_outdated = False
        self._session: LspSession | None = None
        self._owner: asyncio.Task[None] | None = None
        self._opened: asyncio.Future[LspSession] | None = None
        self._closing = asyncio.Event()
        self._failures = 0
        self._pause_until_s = 0.0
        self._used_at = time.monotonic()
        self._in_use = 0
        # Since when it owes an answer to a question that nobody waits for any more.
        self._silent_since: float | None = None

    @property
    def status(self) -> ServerStatus:
        documents = len(self._session.documents) if self._session is not None else 0
        return ServerStatus(self.settings.name, self.folder, self.state, self.failure, documents)

    @property
    def running(self) -> LspSession | None:
        """The session of a server that runs."""
        return self._session if self.state == "ready" else None

    async def ask(self, what: str, work: Callable[[LspSession], Awaitable[T]], limit_s: float) -> T:
        """What the server answers. Raises `ToolError` with a sentence for the model: it does not
        start, says no, ends, or takes longer than `limit_s`."""
        name = self.settings.name
        began_at = time.monotonic()
        self._in_use += 1
        try:
            async with asyncio.timeout(limit_s):
                return await work(await self._ready())
        except TimeoutError:
            self._end_if_hanging(began_at)
            raise ToolError(
                f"The language server {name} did not answer {what} within {limit_s:g} s."
            ) from None
        except ResponseError as exc:
            if exc.is_unknown_method:
                # A server may offer more than it has: clangd 14 offers all call hierarchies.
                raise ToolError(f"This language server has no {what}.") from exc
            raise ToolError(
                f"The language server {name} refused {what}: {_short(str(exc))}"
            ) from exc
        except PeerClosed as exc:
            words = _short(self.failure or str(exc))
            raise ToolError(f"The language server {name} ended during {what}: {words}") from exc
        finally:
            self._in_use -= 1
            self._used_at = time.monotonic()
            self._end_if_outdated()

    def _end_if_hanging(self, asked_at: float) -> None:
        """End it when it owes an answer and has said nothing at all for long: the next question
        starts it anew."""
        if self._session is None:
            return
        if self._silent_since is None or self._session.peer.heard_at > self._silent_since:
            self._silent_since = max(asked_at, self._session.peer.heard_at)
        if time.monotonic() - self._silent_since >= _HANGS_S:
            self.failure = f"It has said nothing for {_HANGS_S:g} s."
            self._closing.set()

    def _told_of_changes(self, session: LspSession) -> AbstractAsyncContextManager[None]:
        self._is_outdated = False
        if self._watched is None:
            return nullcontext()
        return self._watched.tell(session, self._mark_outdated)

    def _mark_outdated(self) -> None:
        self._is_outdated = True
        self._end_if_outdated()

    def _end_if_outdated(self) -> None:
        """End it once nobody waits for it: the next question starts it anew."""
        if self._is_outdated and not self._in_use:
            self._closing.set()

    def end_if_idle(self) -> bool:
        """End it when nobody has asked for long; whether it runs on."""
        if self._owner is None or self._owner.done():
            return False
        if not self._in_use and time.monotonic() - self._used_at >= self._idle_s:
            self._closing.set()
        return True

    def retire(self) -> None:
        """End it without waiting for that; any thread may say so."""
        owner = self._owner
        if owner is not None and not owner.done() and not owner.get_loop().is_closed():
            owner.get_loop().call_soon_threadsafe(self._closing.set)

    async def aclose(self) -> None:
        """End it, and wait for that."""
        owner, self._owner = self._owner, None
        if owner is None or owner.get_loop() is not asyncio.get_running_loop():
            return
        self._closing.set()
        if self.state == "starting":
            owner.cancel()
        await asyncio.wait({owner}, timeout=_CLOSE_S)
        owner.cancel()
        await asyncio.wait({owner})

    async def _ready(self) -> LspSession:
        """The session, which is opened if it is not; several calls wait for one."""
        loop = asyncio.get_running_loop()
        while self._closing.is_set() and (owner := self._live_owner(loop)) is not None:
            # One that is being ended is gone before the next is started.
            await asyncio.wait({owner}, timeout=_CLOSE_S)
            owner.cancel()
        if self._live_owner(loop) is None:
            if (wait_s := self._pause_until_s - time.monotonic()) > 0:
                raise ToolError(
                    f"The language server {self.settings.name} is not available: {self.failure} "
                    f"It is tried again in {wait_s:.0f} s."
                )
            self._closing, self.turn = asyncio.Event(), asyncio.Lock()
            self._opened = loop.create_future()
            # No caller may be waiting when it fails.
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
        """Start it, keep it until it is lost or no longer wanted, and end it."""
        session = LspSession(self.folder, self.settings.settings)
        started_s = time.monotonic()

        async def on_end() -> None:
            session.close()
            closing.set()

        try:
            async with self._open_server(session.peer.feed, on_end) as writer:
                session.peer.connect(writer)
                await session.initialize(self.settings.options, START_S)
                self._session, self.state, self.failure = session, "ready", ""
                opened.set_result(session)
                async with self._told_of_changes(session):
                    await closing.wait()
                await self._say_goodbye(session)
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
                self._end_of_service(session, time.monotonic() - started_s)
            elif self.state == "starting":
                self.state = "idle"

    def _end_of_service(self, session: LspSession, lasted_s: float) -> None:
        """It ran: was it ended, or did it end by itself?"""
        self.state = "idle"
        if not session.has_said_goodbye:
            self.failure = self.failure or _short(self._last_words()) or "It ended by itself."
            if lasted_s >= _STEADY_S:
                self._failures = 0
            self._pause()

    async def _say_goodbye(self, session: LspSession) -> None:
        """As the protocol wants it; whoever does not listen is killed right after."""
        if session.peer.is_closed:
            return
        session.has_said_goodbye = True
        try:
            await session.peer.request("shutdown", None, _SHUTDOWN_S)
            session.peer.notify("exit", None)
        except (TimeoutError, ResponseError, PeerClosed) as exc:
            log.debug("language server %s at its end: %s", self.settings.name, exc)

    def _note_failure(self, exc: BaseException) -> None:
        if isinstance(exc, TimeoutError):
            self.failure = f"It did not start within {START_S:g} s."
        else:
            self.failure = _short(self._last_words()) or _short(str(exc))
        self.state = "failed"
        self._pause()

    def _pause(self) -> None:
        pause_s = min(_FIRST_PAUSE_S * 2**self._failures, _LONGEST_PAUSE_S)
        self._failures += 1
        self._pause_until_s = time.monotonic() + pause_s


def _short(text: str) -> str:
    line = escape_line(" ".join(text.split()))
    return line if len(line) <= _REASON_CHARS else f"{line[: _REASON_CHARS - 1]}…"


def _retrieve(opened: "asyncio.Future[LspSession]") -> None:
    if not opened.cancelled():
        opened.exception()
