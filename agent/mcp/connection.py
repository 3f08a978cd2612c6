"""One MCP server: opened when it is first needed, asked, opened anew when it was lost, closed."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, suppress
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from agent.errors import ToolError
from agent.mcp import elicitation
from agent.mcp.listing import MOST_TOOLS, McpPrompt, ServerListing, tool_definition
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
_REASON_CHARS = 300

State = Literal["idle", "starting", "ready", "failed"]
# Opens the streams; the function is called when they are lost.
OpenTransport = Callable[[Callable[[], None]], AbstractAsyncContextManager["TransportStreams"]]


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
    ) -> T:
        """What the server answers; `elicit` asks the person of this call. Raises `ToolError` with a
        sentence for the model: it cannot be reached, says no, or takes longer than `timeout_s`."""
        try:
            from mcp import MCPError
        except ImportError as exc:
            text = "MCP servers need the package mcp: pip install 'kore-assistant[mcp]'"
            raise ToolError(text) from exc

        name = self.server.name
        client = await self._opened()
        try:
            async with (
                asyncio.timeout(timeout_s) as deadline,
                self._calls.during(elicit, deadline),
            ):
                return await work(client)
        except TimeoutError as exc:
            text = f"The MCP server {name} did not answer {what} within {timeout_s:g} s."
            raise ToolError(text) from exc
        except MCPError as exc:
            if _has_expired(exc):
                self._closing.set()
            # Of one that is reached: what a person has to do before.
            words = self._last_words() if self.server.url is not None else ""
            if self._is_lost() and not words:
                raise ToolError(f"The MCP server {name} ended during {what}.") from exc
            text = f"The MCP server {name} refused {what}: {words or _short(str(exc))}"
            raise ToolError(text) from exc
        except _transport_failures() as exc:
            # What a server sends may be anything.
            text = f"{what} of the MCP server {name} failed: {_reason(exc)}"
            raise ToolError(text) from exc

    async def list(self) -> ServerListing:
        """What the server offers now. Raises `ToolError`."""
        return await self.request(
            self.ask_listing, self.server.start_timeout_s, what="its list of tools"
        )

    async def ask_listing(self, client: "Client") -> ServerListing:
        """What the server offers now; for the work of a `request`."""
        capabilities = client.server_capabilities
        if _mode(self.server.protocol) == self.server.protocol:
            # Nobody has asked what it can: it says so at each request.
            listing = await _listing_by_trial(client)
        else:
            tools = await _all_tools(client) if capabilities.tools else []
            prompts = await _all_prompts(client) if capabilities.prompts else []
            listing = ServerListing(
                client.protocol_version,
                tuple(tools),
                tuple(prompts),
                capabilities.resources is not None,
            )
        self.is_listed = True
        return listing

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
            self._open_transport(closing.set),
            list_roots_callback=on_roots,
            elicitation_callback=None if self._elicit is None else on_elicit,
            client_info=Implementation(name="kore", version=VERSION),
            message_handler=on_message,
            mode=_mode(self.server.protocol),
            cache=None,
        )
        opened = await stack.enter_async_context(client)
        # The SDK would check results by the server's schema, with patterns that backtrack.
        opened.session.validate_tool_result = _accept_result  # type: ignore[method-assign]
        return opened


async def _accept_result(name: str, result: Any) -> None:
    """Check nothing: the model reads a result as a stranger's words, whatever its shape."""


async def _listing_by_trial(client: "Client") -> ServerListing:
    """What a server offers that has not said what it can."""
    from mcp import MCPError
    from mcp.types import UNSUPPORTED_PROTOCOL_VERSION

    try:
        tools = await _all_tools(client)
    except MCPError as exc:
        # One that names this version among those that it speaks takes it the second time.
        versions = exc.error.data.get("supported", ()) if isinstance(exc.error.data, dict) else ()
        if exc.code != UNSUPPORTED_PROTOCOL_VERSION or client.protocol_version not in versions:
            raise
        tools = await _all_tools(client)
    prompts: list[McpPrompt] = []
    has_resources = False
    # What a server that does not know the request answers may be anything.
    with suppress(MCPError, ValueError):
        prompts = await _all_prompts(client)
    with suppress(MCPError, ValueError):
        has_resources = bool((await client.list_resources()).resources)
    return ServerListing(client.protocol_version, tuple(tools), tuple(prompts), has_resources)


async def _all_tools(client: "Client") -> list[Any]:
    tools, cursor = [], None
    for _ in range(_MOST_PAGES):
        page = await client.list_tools(cursor=cursor)
        for tool in page.tools:
            definition = tool_definition(tool.name, tool.description or "", tool.input_schema)
            if definition is not None:
                tools.append(definition)
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


def _has_expired(exc: Any) -> bool:
    """Whether a server over HTTP has forgotten the session, as after a restart of its own."""
    from mcp.types import CONNECTION_CLOSED

    return bool(exc.error.code == CONNECTION_CLOSED or exc.error.message == "Session terminated")


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
