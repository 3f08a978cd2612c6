"""Connection to one MCP server, opened on demand and reopened after a failure."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, suppress
from contextvars import ContextVar
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from pydantic import FileUrl

from agent.errors import ToolError
from agent.mcp import elicitation
from agent.mcp.listing import MAX_TOOLS, McpPrompt, ServerListing, tool_definition
from agent.mcp.results import read_tolerantly
from agent.mcp.settings import McpServerSettings
from agent.text.visible import escape_line
from agent.version import VERSION

if TYPE_CHECKING:
    from mcp import Client
    from mcp.client._transport import TransportStreams

    from agent.tools.elicitation import Elicit

log = logging.getLogger(__name__)
T = TypeVar("T")

# A server that has not answered `server/discover` by then uses an older protocol: many servers
# ignore unknown methods (rust-sdk#1142).
PROBE_TIMEOUT_S = 3.0
# Older versions begin with `initialize`.
FIRST_STATELESS = "2026-07-28"
# Pause after the first failure; doubled after each further failure.
_MIN_RETRY_INTERVAL_S = 1.0
_MAX_RETRY_INTERVAL_S = 300.0
# A list with more pages counts as endless.
_MAX_PAGES = 100
_CLOSE_TIMEOUT_S = 10.0
# Time limit for the ping that follows an unanswered request.
_PING_TIMEOUT_S = 5.0
_MAX_REASON_CHARS = 300

Refusals = list[str]
# Refused messages of the request sent in this context; the SDK's tasks copy the context.
_refusals: ContextVar[Refusals] = ContextVar("refusals")

State = Literal["idle", "starting", "ready", "failed"]
# Opens the streams. The first function is called when the streams are lost, the second when an HTTP
# server refuses a message of its session.
OpenTransport = Callable[
    [Callable[[], None], Callable[[], None]], AbstractAsyncContextManager["TransportStreams"]
]


class McpConnection:
    """Client owned by a separate task. The SDK can close a client only in the task that opened it.

    `on_change` is called when the server reports changed tools or prompts. `last_words` returns why
    the server ended, or an empty string. `elicit` asks a person the server's questions during calls
    without a person of their own; without it, the server is informed that it cannot ask.
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
        # True if the server has been listed since its last start.
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
        # Unreadable items of its lists.
        self._left_out: list[str] = []

    @property
    def is_available(self) -> bool:
        """False during the pause after a failure."""
        return time.monotonic() >= self._pause_until_s

    async def request(
        self,
        work: Callable[["Client"], Awaitable[T]],
        timeout_s: float,
        *,
        operation: str,
        elicit: "Elicit | None" = None,
        is_read: bool = False,
    ) -> T:
        """Return the result of `work`, repeating it once after a lost session.

        `elicit` asks the person of this call. `is_read` marks a request without side effects, which
        may be repeated. Raises `ToolError` with a sentence for the model if the server is
        unreachable, refuses, or takes longer than `timeout_s`.
        """
        try:
            import mcp  # noqa: F401 - only check that it is installed
        except ImportError as exc:
            text = "MCP servers need the package mcp: pip install 'kore-assistant[mcp]'"
            raise ToolError(text) from exc

        is_repeated = False
        while True:
            client = await self._open_client()
            self._in_flight += 1
            try:
                return await self._attempt(work, client, timeout_s, operation, elicit)
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
        operation: str,
        elicit: "Elicit | None",
    ) -> T:
        """Run `work` once. Raises `ToolError`, including `_SessionLost`."""
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
            text = f"The MCP server {name} did not answer {operation} within {timeout_s:g} s."
            if self._in_flight <= 1 and not await self._is_alive(client):
                self._closing.set()
                text += " It does not respond; it is restarted for the next call."
            raise ToolError(text) from exc
        except MCPError as exc:
            is_refused = await self._has_lost_session(client, refusals)
            if is_refused or _has_ended(exc):
                self._closing.set()
            # A login that a person has to complete first.
            words = self._last_words() if self.server.url is not None else ""
            if self._is_lost() and not words:
                raise _SessionLost(
                    f"The MCP server {name} ended during {operation}.", is_refused
                ) from exc
            text = f"The MCP server {name} refused {operation}: {words or _shorten(str(exc))}"
            raise ToolError(text) from exc
        except _transport_failures() as exc:
            # A server may send anything.
            text = f"{operation} of the MCP server {name} failed: {_reason(exc)}"
            raise ToolError(text) from exc

    async def list(self) -> ServerListing:
        """Return the current listing of the server. Raises `ToolError`."""
        return await self.request(
            self.fetch_listing,
            self.server.start_timeout_s,
            operation="its list of tools",
            is_read=True,
        )

    async def fetch_listing(self, client: "Client") -> ServerListing:
        """Return the current listing of the server, for use inside a `request`."""
        self._left_out.clear()
        capabilities = client.server_capabilities
        if _mode(self.server.protocol) == self.server.protocol:
            # Without `initialize` the capabilities are unknown.
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
        return replace(listing, left_out=tuple(dict.fromkeys(self._left_out))[:MAX_TOOLS])

    async def _is_alive(self, client: "Client") -> bool:
        """Return whether the server answers at all, even with an error."""
        from mcp import MCPError

        try:
            async with asyncio.timeout(_PING_TIMEOUT_S):
                await client.session.send_ping()
        except TimeoutError:
            return False
        except MCPError as exc:
            return not _has_ended(exc)
        except _transport_failures():
            return False
        return True

    async def _has_lost_session(self, client: "Client", refusals: Refusals) -> bool:
        """Return whether an HTTP server has lost the session, as after a restart.

        Such a server has refused a message of the session and refuses any other.
        """
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

    def _folders(self) -> Sequence[Path]:
        """Return the folders that the server may open."""
        work_folder = self.server.work_folder
        folders = [] if work_folder is None else [work_folder]
        return [*folders, *(access.path for access in self.server.open_folders)]

    async def aclose(self) -> None:
        """End the server and wait for it."""
        owner, self._owner = self._owner, None
        if owner is None or owner.get_loop() is not asyncio.get_running_loop():
            return
        self._closing.set()
        if self.state == "starting":
            # A starting task does not check `_closing`.
            owner.cancel()
        await asyncio.wait({owner}, timeout=_CLOSE_TIMEOUT_S)
        owner.cancel()
        await asyncio.wait({owner})
        self.state = "idle"

    def _is_lost(self) -> bool:
        return self._owner is None or self._owner.done() or self._closing.is_set()

    def _ending(self, loop: asyncio.AbstractEventLoop) -> asyncio.Task[None] | None:
        """Return the task that is still closing a client of this loop."""
        owner = self._owner
        if owner is None or owner.done() or owner.get_loop() is not loop:
            return None
        return owner if self._closing.is_set() else None

    async def _open_client(self) -> "Client":
        """Return the client, opening it if necessary; concurrent calls share one start."""
        loop = asyncio.get_running_loop()
        while (ending := self._ending(loop)) is not None:
            # Wait until a lost client is closed before opening the next.
            await asyncio.wait({ending}, timeout=_CLOSE_TIMEOUT_S)
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
            # There may be no caller left if the start fails.
            self._client.add_done_callback(_retrieve)
            self.state, self.is_listed = "starting", False
            self._owner = asyncio.create_task(
                self._own(self._client, self._closing), name=f"mcp {self.server.name}"
            )
        assert self._client is not None
        return await asyncio.shield(self._client)

    async def _own(self, opened: "asyncio.Future[Client]", closing: asyncio.Event) -> None:
        """Keep the client open until it is lost or asked to close."""
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
        except (Exception, BaseExceptionGroup) as exc:  # noqa: BLE001 - a server may cause any error
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
        """Subscribe to changes; servers of the newer protocol notify only subscribers."""
        tools = client.server_capabilities.tools
        if client.protocol_version < FIRST_STATELESS or tools is None or not tools.list_changed:
            return
        from mcp import MCPError
        from mcp.client.subscriptions import ListenNotSupportedError, SubscriptionLost

        pause_s = _MIN_RETRY_INTERVAL_S
        while True:
            try:
                listener = client.listen(tools_list_changed=True, prompts_list_changed=True)
                async with listener as changes:
                    async for _ in changes:
                        self._on_change()
                return
            except SubscriptionLost:
                # Changes from before the new subscription are not reported again.
                await asyncio.sleep(pause_s)
                pause_s = min(pause_s * 2, _MAX_RETRY_INTERVAL_S)
                self._on_change()
            except (MCPError, ListenNotSupportedError, TimeoutError) as exc:
                log.info("mcp server %s does not report changes: %s", self.server.name, exc)
                return

    def _note_failure(self, exc: BaseException) -> None:
        words = self._last_words()
        if isinstance(exc, TimeoutError):
            text = f"It did not start within {self.server.start_timeout_s:g} s. {words}"
            self.failure = _shorten(text)
        elif words:
            self.failure = _shorten(words)
        else:
            self.failure = _reason(exc)
        self.state = "failed"
        pause_s = min(_MIN_RETRY_INTERVAL_S * 2**self._failures, _MAX_RETRY_INTERVAL_S)
        self._failures += 1
        self._pause_until_s = time.monotonic() + pause_s

    async def _open(self, stack: AsyncExitStack, closing: asyncio.Event) -> "Client":
        from mcp import Client
        from mcp.client import session as sdk_session
        from mcp.types import Implementation, ListRootsResult, Root, ServerNotification

        # The SDK waits 10 s for a silent server and has no setting for it.
        sdk_session.DISCOVER_TIMEOUT_SECONDS = PROBE_TIMEOUT_S

        async def on_message(message: Any) -> None:
            if isinstance(message, ServerNotification) and str(message.method).endswith(
                "list_changed"
            ):
                self._on_change()

        async def on_roots(context: Any) -> ListRootsResult:
            folders = await asyncio.to_thread(self._folders)
            return ListRootsResult(roots=[Root(uri=FileUrl(folder.as_uri())) for folder in folders])

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
        # The SDK would validate results with the server's schema, whose patterns may backtrack.
        opened.session.validate_tool_result = _skip_validation  # type: ignore[method-assign]
        return opened


class _SessionLost(ToolError):
    """The session was lost; `is_refused` means that the server did not run the request."""

    def __init__(self, text: str, is_refused: bool) -> None:
        super().__init__(text)
        self.is_refused = is_refused


async def _skip_validation(name: str, result: Any) -> None:
    """Skip validation: the model treats a result as untrusted, independent of its shape."""


async def _listing_by_trial(client: "Client", left_out: list[str]) -> ServerListing:
    """Return the listing of a server with unknown capabilities by trying each request."""
    from mcp import MCPError
    from mcp.types import UNSUPPORTED_PROTOCOL_VERSION

    try:
        tools = await _all_tools(client, left_out)
    except MCPError as exc:
        # A server that lists this version as supported accepts it on the second request.
        versions = exc.error.data.get("supported", ()) if isinstance(exc.error.data, dict) else ()
        if exc.code != UNSUPPORTED_PROTOCOL_VERSION or client.protocol_version not in versions:
            raise
        tools = await _all_tools(client, left_out)
    prompts: list[McpPrompt] = []
    has_resources = False
    # A server may answer unknown requests with anything.
    with suppress(MCPError, ValueError):
        prompts = await _all_prompts(client)
    with suppress(MCPError, ValueError):
        has_resources = bool((await client.list_resources()).resources)
    return ServerListing(client.protocol_version, tuple(tools), tuple(prompts), has_resources)


async def _all_tools(client: "Client", left_out: list[str]) -> list[Any]:
    """Return the tools; the first of the same name counts."""
    tools: dict[str, Any] = {}
    cursor = None
    for _ in range(_MAX_PAGES):
        page = await client.list_tools(cursor=cursor)
        for tool in page.tools:
            definition = tool_definition(tool.name, tool.description or "", tool.input_schema)
            if definition is not None:
                tools.setdefault(definition.name, definition)
            else:
                left_out.append(escape_line(tool.name)[:_MAX_REASON_CHARS])
        cursor = page.next_cursor
        if cursor is None or len(tools) >= MAX_TOOLS:
            break
    return [*tools.values()][:MAX_TOOLS]


async def _all_prompts(client: "Client") -> list[McpPrompt]:
    prompts, cursor = [], None
    for _ in range(_MAX_PAGES):
        page = await client.list_prompts(cursor=cursor)
        prompts += [
            McpPrompt(
                escape_line(prompt.name),
                escape_line(prompt.description or ""),
                tuple(
                    (argument.name, bool(argument.required)) for argument in prompt.arguments or ()
                ),
            )
            for prompt in page.prompts
        ]
        cursor = page.next_cursor
        if cursor is None or len(prompts) >= MAX_TOOLS:
            break
    return prompts[:MAX_TOOLS]


def _transport_failures() -> tuple[type[Exception], ...]:
    """Return the errors that the SDK raises when a server or its transport fails."""
    import anyio
    import httpx2

    lost = (anyio.BrokenResourceError, anyio.ClosedResourceError, anyio.EndOfStream)
    return (OSError, RuntimeError, ValueError, ExceptionGroup, httpx2.HTTPError, *lost)


def _mode(protocol: str | None) -> str:
    """Return the SDK's connection mode: probe first, legacy, or a fixed protocol version."""
    if protocol is None:
        return "auto"
    return "legacy" if protocol < FIRST_STATELESS else protocol


def _has_ended(exc: Any) -> bool:
    """Return whether the connection was lost before an answer arrived."""
    from mcp.types import CONNECTION_CLOSED

    return bool(exc.error.code == CONNECTION_CLOSED)


def _reason(exc: BaseException) -> str:
    """Return the reason in one line; of an exception group, the reason of its first exception."""
    while isinstance(exc, BaseExceptionGroup):
        exc = exc.exceptions[0]
    text = _shorten(str(exc)) or type(exc).__name__
    return text if text.endswith((".", "…")) else f"{text}."


def _shorten(text: str) -> str:
    line = escape_line(" ".join(text.split()))
    return line if len(line) <= _MAX_REASON_CHARS else f"{line[: _MAX_REASON_CHARS - 1]}…"


def _fail(opened: "asyncio.Future[Client]", failure: ToolError) -> None:
    if not opened.done():
        opened.set_exception(failure)


def _retrieve(opened: "asyncio.Future[Client]") -> None:
    if not opened.cancelled():
        opened.exception()
