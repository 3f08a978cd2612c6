"""One MCP server: opened when it is first needed, asked, opened anew when it was lost, closed."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, suppress
from contextvars import ContextVar
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from agent.errors import ToolError
from agent.mcp import elicitation
from agent.mcp.listing import MOST_TOOLS, McpPrompt, ServerListing, tool_definition
from agent.mcp.results import read_tolerantly
from agent.mcp.settings import McpServerSettings
from agent.text.visible import escape_line

if TYPE_CHECKING:
    from mcp import Client
    from mcp.client._transport import TransportStreams

    from agent.elicitation import Elicit

log = logging.getLogger(__name__)
T = TypeVar("T")

# A server that has said nothing to `server/discover` by then speaks an older protocol: many say
# nothing at all to what they do not know (rust-sdk#1142).
PROBE_S = 3.0
# Versions before this one begin with `initialize`.
FIRST_STATELESS = "2026-07-28"
# Behind a failure a server is left alone for so long, twice as long each time.
_FIRST_PAUSE_S = 1.0
_LONGEST_PAUSE_S = 300.0
# A list that goes on for longer never ends.
_MOST_PAGES = 100
_CLOSE_S = 10.0
# A server that has not answered a request is asked whether it is still there.
_PING_S = 5.0
_REASON_CHARS = 300

Refusals = list[str]
# Refused messages of the request that is sent in this context: the SDK's tasks copy it.
_refusals: ContextVar[Refusals] = ContextVar("refusals")

State = Literal["idle", "starting", "ready", "failed"]
# Opens the streams. The first function is called when they are lost, the second when a server over
# HTTP refuses a message of its session.
OpenTransport = Callable[
    [Callable[[], None], Callable[[], None]], AbstractAsyncContextManager["TransportStreams"]
]


class McpConnection:
    """A client in a task of its own, which alone opens and closes it: what the SDK has opened in
    one task, it cannot close in another.

    `on_change` is called when the server says that what it offers has changed; `last_words` says
    why it ended when it was last started, empty when that is not known. `elicit` asks a person
    what the server wants to know, where a call brings nobody along; without it, it is told that
    nobody can be asked.
    """

    def __init__(
        self,
        server: McpServerSettings,
        open_transport: OpenTransport,
        on_change: Callable[[], None],
        last_words: Callable[[], str] = str,
        elicit: "Elicit | None" = None,
    ) -> None:
        self.server = server
        self.state: State = "idle"
        # Whether it has said what it offers since it was last started.
        self.is_listed = False
        self.failure = ""
        self._open_transport = open_transport
        self._on_change = on_change
        self._last_words = last_words
        self._elicit = elicit
        self._calls = elicitation.LiveCalls(elicit)
        self._owner: asyncio.Task[None] | None = None
        self._client: asyncio.Future[Client] | None = None
        self._closing = asyncio.Event()
        self._failures = 0
        self._pause_until_s = 0.0
        self._in_flight = 0
        # Items of its lists that could not be read.
        self._left_out: list[str] = []

    @property
    def is_available(self) -> bool:
        """Whether it may be asked now: some time after a failure it is left alone."""
        return time.monotonic() >= self._pause_until_s

    async def request(
        self,
        work: Callable[["Client"], Awaitable[T]],
        timeout_s: float,
        *,
        what: str,
        elicit: "Elicit | None" = None,
        is_read: bool = False,
    ) -> T:
        """What the server answers; `elicit` asks the person of this call. `is_read`: it changes
        nothing, and may be asked twice. Raises `ToolError` with a sentence for the model: it cannot
        be reached, says no, or takes longer than `timeout_s`."""
        try:
            import mcp  # noqa: F401 - whether it is there
        except ImportError as exc:
            text = "MCP servers need the package mcp: pip install 'kore-assistant[mcp]'"
            raise ToolError(text) from exc

        is_repeated = False
        while True:
            client = await self._opened()
            self._in_flight += 1
            try:
                return await self._attempt(work, client, timeout_s, what, elicit)
            except _SessionLost as exc:
                if is_repeated or not (exc.is_refused or is_read):
                    raise
                is_repeated = True
            finally:
                self._in_flight -= 1

    async def _attempt(
        self,
        work: Callable[["Client"], Awaitable[T]],
        client: "Client",
        timeout_s: float,
        what: str,
        elicit: "Elicit | None",
    ) -> T:
        """Raises `ToolError`, `_SessionLost` among them."""
        from mcp import MCPError

        name = self.server.name
        refusals: Refusals = []
        _refusals.set(refusals)
        try:
            async with (
                asyncio.timeout(timeout_s) as deadline,
                self._calls.during(elicit, deadline),
            ):
                return await work(client)
        except TimeoutError as exc:
            text = f"The MCP server {name} did not answer {what} within {timeout_s:g} s."
            if self._in_flight <= 1 and not await self._is_alive(client):
                self._closing.set()
                text += " It does not answer at all: it is started again for the next call."
            raise ToolError(text) from exc
        except MCPError as exc:
            is_refused = await self._has_forgotten(client, refusals)
            if is_refused or _has_ended(exc):
                self._closing.set()
            # Of one that is reached: what a person has to do before.
            words = self._last_words() if self.server.url is not None else ""
            if self._is_lost() and not words:
                raise _SessionLost(
                    f"The MCP server {name} ended during {what}.", is_refused
                ) from exc
            text = f"The MCP server {name} refused {what}: {words or _short(str(exc))}"
            raise ToolError(text) from exc
        except _transport_failures() as exc:
            # What a server sends may be anything.
            text = f"{what} of the MCP server {name} failed: {_reason(exc)}"
            raise ToolError(text) from exc

    async def list(self) -> ServerListing:
        """What the server offers now. Raises `ToolError`."""
        return await self.request(
            self.ask_listing,
            self.server.start_timeout_s,
            what="its list of tools",
            is_read=True,
        )

    async def ask_listing(self, client: "Client") -> ServerListing:
        """What the server offers now; for the work of a `request`."""
        self._left_out.clear()
        capabilities = client.server_capabilities
        if _mode(self.server.protocol) == self.server.protocol:
            # Nobody has asked what it can: it says so at each request.
            listing = await _listing_by_trial(client, self._left_out)
        else:
            tools = await _all_tools(client, self._left_out) if capabilities.tools else []
            prompts = await _all_prompts(client) if capabilities.prompts else []
            listing = ServerListing(
                client.protocol_version,
                tuple(tools),
                tuple(prompts),
                capabilities.resources is not None,
            )
        self.is_listed = True
        return replace(listing, left_out=tuple(dict.fromkeys(self._left_out))[:MOST_TOOLS])

    async def _is_alive(self, client: "Client") -> bool:
        """Return whether the server answers, in whatever words."""
        from mcp import MCPError

        try:
            async with asyncio.timeout(_PING_S):
                await client.session.send_ping()
        except TimeoutError:
            return False
        except MCPError as exc:
            return not _has_ended(exc)
        except _transport_failures():
            return False
        return True

    async def _has_forgotten(self, client: "Client", refusals: Refusals) -> bool:
        """Return whether a server over HTTP knows the session no more, as after a restart: it has
        refused a message of it, and refuses any other."""
        if not refusals:
            return False
        refusals.clear()
        return not await self._is_alive(client) or bool(refusals)

    def _note_unreadable(self, method: str, names: Sequence[str]) -> None:
        log.warning("mcp server %s: %s: left out %s", self.server.name, method, ", ".join(names))
        self._left_out += names

    def _note_refusal(self) -> None:
        if (refusals := _refusals.get(None)) is not None:
            refusals.append(self.server.name)

    async def aclose(self) -> None:
        """End the server, and wait for that."""
        owner, self._owner = self._owner, None
        if owner is None or owner.get_loop() is not asyncio.get_running_loop():
            return
        self._closing.set()
        if self.state == "starting":
            # It may never come to look whether it is wanted.
            owner.cancel()
        await asyncio.wait({owner}, timeout=_CLOSE_S)
        owner.cancel()
        await asyncio.wait({owner})
        self.state = "idle"

    def _is_lost(self) -> bool:
        return self._owner is None or self._owner.done() or self._closing.is_set()

    def _ending(self, loop: asyncio.AbstractEventLoop) -> asyncio.Task[None] | None:
        """What still closes a client of this loop."""
        owner = self._owner
        if owner is None or owner.done() or owner.get_loop() is not loop:
            return None
        return owner if self._closing.is_set() else None

    async def _opened(self) -> "Client":
        """The client, which is opened if it is not; several calls wait for one."""
        loop = asyncio.get_running_loop()
        while (ending := self._ending(loop)) is not None:
            # One that was lost is closed before the next is opened.
            await asyncio.wait({ending}, timeout=_CLOSE_S)
            ending.cancel()
        owner = self._owner
        if owner is None or owner.done() or owner.get_loop() is not loop:
            if (wait_s := self._pause_until_s - time.monotonic()) > 0:
                raise ToolError(
                    f"The MCP server {self.server.name} is not available: {self.failure} "
                    f"It is tried again in {wait_s:.0f} s."
                )
            self._closing = asyncio.Event()
            self._client = loop.create_future()
            # No caller may be waiting when it fails.
            self._client.add_done_callback(_retrieve)
            self.state, self.is_listed = "starting", False
            self._owner = asyncio.create_task(
                self._own(self._client, self._closing), name=f"mcp {self.server.name}"
            )
        assert self._client is not None
        return await asyncio.shield(self._client)

    async def _own(self, opened: "asyncio.Future[Client]", closing: asyncio.Event) -> None:
        """Open the client, keep it until it is lost or no longer wanted, and close it."""
        try:
            async with AsyncExitStack() as stack:
                async with asyncio.timeout(self.server.start_timeout_s):
                    client = await self._open(stack, closing)
                self._failures, self.failure, self.state = 0, "", "ready"
                opened.set_result(client)
                listening = asyncio.create_task(self._listen(client), name="mcp changes")
                try:
                    await closing.wait()
                finally:
                    listening.cancel()
                    await asyncio.wait({listening})
        except asyncio.CancelledError:
            _fail(opened, ToolError(f"The MCP server {self.server.name} was stopped."))
            raise
        except (Exception, BaseExceptionGroup) as exc:  # noqa: BLE001 - it may be anything
            if opened.done() and not opened.cancelled():
                log.warning("mcp server %s: closing it failed: %s", self.server.name, _reason(exc))
            else:
                self._note_failure(exc)
                text = f"The MCP server {self.server.name} could not be started: {self.failure}"
                _fail(opened, ToolError(text))
        finally:
            if self.state != "failed":
                self.state = "idle"

    async def _listen(self, client: "Client") -> None:
        """Hear of changes from a server of the newer era, which tells only who asks for it."""
        tools = client.server_capabilities.tools
        if client.protocol_version < FIRST_STATELESS or tools is None or not tools.list_changed:
            return
        from mcp import MCPError
        from mcp.client.subscriptions import ListenNotSupportedError, SubscriptionLost

        pause_s = _FIRST_PAUSE_S
        while True:
            try:
                listener = client.listen(tools_list_changed=True, prompts_list_changed=True)
                async with listener as changes:
                    async for _ in changes:
                        self._on_change()
                return
            except SubscriptionLost:
                # What was said meanwhile is not said again.
                await asyncio.sleep(pause_s)
                pause_s = min(pause_s * 2, _LONGEST_PAUSE_S)
                self._on_change()
            except (MCPError, ListenNotSupportedError, TimeoutError) as exc:
                log.info("mcp server %s tells of no changes: %s", self.server.name, exc)
                return

    def _note_failure(self, exc: BaseException) -> None:
        if isinstance(exc, TimeoutError):
            self.failure = f"It did not start within {self.server.start_timeout_s:g} s."
        elif words := self._last_words():
            self.failure = _short(words)
        else:
            self.failure = _reason(exc)
        self.state = "failed"
        pause_s = min(_FIRST_PAUSE_S * 2**self._failures, _LONGEST_PAUSE_S)
        self._failures += 1
        self._pause_until_s = time.monotonic() + pause_s

    async def _open(self, stack: AsyncExitStack, closing: asyncio.Event) -> "Client":
        from mcp import Client
        from mcp.client import session as sdk_session
        from mcp.types import Implementation, ListRootsResult, Root, ServerNotification
        from pydantic import FileUrl

        from agent.version import VERSION

        # The SDK waits 10 s for a server that says nothing, and has no setting for it.
        sdk_session.DISCOVER_TIMEOUT_SECONDS = PROBE_S

        async def on_message(message: Any) -> None:
            if isinstance(message, ServerNotification) and str(message.method).endswith(
                "list_changed"
            ):
                self._on_change()

        async def on_roots(context: Any) -> ListRootsResult:
            folder = await asyncio.to_thread(lambda: self.server.work_folder)
            roots = [Root(uri=FileUrl(folder.as_uri()))] if folder is not None else []
            return ListRootsResult(roots=roots)

        async def on_elicit(context: Any, params: Any) -> Any:
            return await elicitation.elicit(self.server.name, params, self._calls.ask)

        client = Client(
            self._open_transport(closing.set, self._note_refusal),
            list_roots_callback=on_roots,
            elicitation_callback=None if self._elicit is None else on_elicit,
            client_info=Implementation(name="kore", version=VERSION),
            message_handler=on_message,
            mode=_mode(self.server.protocol),
            cache=None,
        )
        opened = await stack.enter_async_context(client)
        read_tolerantly(opened.session, self._note_unreadable)
        # The SDK would check results by the server's schema, with patterns that backtrack.
        opened.session.validate_tool_result = _accept_result  # type: ignore[method-assign]
        return opened


class _SessionLost(ToolError):
    """The server ended, or has forgotten the session and has refused the request therefore."""

    def __init__(self, text: str, is_refused: bool) -> None:
        super().__init__(text)
        self.is_refused = is_refused


async def _accept_result(name: str, result: Any) -> None:
    """Check nothing: the model reads a result as a stranger's words, whatever its shape."""


async def _listing_by_trial(client: "Client", left_out: list[str]) -> ServerListing:
    """What a server offers that has not said what it can."""
    from mcp import MCPError
    from mcp.types import UNSUPPORTED_PROTOCOL_VERSION

    try:
        tools = await _all_tools(client, left_out)
    except MCPError as exc:
        # One that names this version among those that it speaks takes it the second time.
        versions = exc.error.data.get("supported", ()) if isinstance(exc.error.data, dict) else ()
        if exc.code != UNSUPPORTED_PROTOCOL_VERSION or client.protocol_version not in versions:
            raise
        tools = await _all_tools(client, left_out)
    prompts: list[McpPrompt] = []
    has_resources = False
    # What a server that does not know the request answers may be anything.
    with suppress(MCPError, ValueError):
        prompts = await _all_prompts(client)
    with suppress(MCPError, ValueError):
        has_resources = bool((await client.list_resources()).resources)
    return ServerListing(client.protocol_version, tuple(tools), tuple(prompts), has_resources)


async def _all_tools(client: "Client", left_out: list[str]) -> list[Any]:
    tools, cursor = [], None
    for _ in range(_MOST_PAGES):
        page = await client.list_tools(cursor=cursor)
        for tool in page.tools:
            definition = tool_definition(tool.name, tool.description or "", tool.input_schema)
            if definition is not None:
                tools.append(definition)
            else:
                left_out.append(escape_line(tool.name)[:_REASON_CHARS])
        cursor = page.next_cursor
        if cursor is None or len(tools) >= MOST_TOOLS:
            break
    return tools[:MOST_TOOLS]


async def _all_prompts(client: "Client") -> list[McpPrompt]:
    prompts, cursor = [], None
    for _ in range(_MOST_PAGES):
        page = await client.list_prompts(cursor=cursor)
        prompts += [
            McpPrompt(
                escape_line(prompt.name),
                escape_line(prompt.description or ""),
                tuple((one.name, bool(one.required)) for one in prompt.arguments or ()),
            )
            for prompt in page.prompts
        ]
        cursor = page.next_cursor
        if cursor is None or len(prompts) >= MOST_TOOLS:
            break
    return prompts[:MOST_TOOLS]


def _transport_failures() -> tuple[type[Exception], ...]:
    """What the SDK raises when a server or the way to it fails, other than its own error."""
    import anyio
    import httpx2

    lost = (anyio.BrokenResourceError, anyio.ClosedResourceError, anyio.EndOfStream)
    return (OSError, RuntimeError, ValueError, ExceptionGroup, httpx2.HTTPError, *lost)


def _mode(protocol: str | None) -> str:
    """How the SDK calls the way to begin: asking first, in the old way, or at once in this
    version."""
    if protocol is None:
        return "auto"
    return "legacy" if protocol < FIRST_STATELESS else protocol


def _has_ended(exc: Any) -> bool:
    """Return whether the way to the server was lost before an answer came."""
    from mcp.types import CONNECTION_CLOSED

    return bool(exc.error.code == CONNECTION_CLOSED)


def _reason(exc: BaseException) -> str:
    """Why, in one line: of a group of failures the first one."""
    while isinstance(exc, BaseExceptionGroup):
        exc = exc.exceptions[0]
    text = _short(str(exc)) or type(exc).__name__
    return text if text.endswith((".", "…")) else f"{text}."


def _short(text: str) -> str:
    line = escape_line(" ".join(text.split()))
    return line if len(line) <= _REASON_CHARS else f"{line[: _REASON_CHARS - 1]}…"


def _fail(opened: "asyncio.Future[Client]", failure: ToolError) -> None:
    if not opened.done():
        opened.set_exception(failure)


def _retrieve(opened: "asyncio.Future[Client]") -> None:
    if not opened.cancelled():
        opened.exception()
