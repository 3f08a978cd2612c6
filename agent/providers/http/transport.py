"""HTTP transport for request bodies and streamed responses, based on aiohttp."""

import socket
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from dataclasses import field
from hashlib import sha256
from io import BytesIO
from typing import TYPE_CHECKING, Protocol

from agent.errors import BadReply, ProviderError, Rejected, TimedOut, Unavailable
from agent.i18n import t
from agent.per_loop import PerLoop
from agent.proxies.outbound import OutboundProxy, open_session
from agent.records import frozen
from agent.security.secret_values import is_secret_value, secrets_in_map
from agent.version import VERSION

if TYPE_CHECKING:
    import aiohttp
    from aiohttp.connector import AddrInfoType

_LARGE_BODY_BYTES = 1 << 20
# Seconds of silence before the first probe and between probes, and their number.
_PROBES = {"TCP_KEEPIDLE": 60, "TCP_KEEPINTVL": 15, "TCP_KEEPCNT": 4}
_KEEPALIVE_TIMEOUT_S = 60


@frozen
class Deadlines:
    """Time limits of a request, in seconds.

    `first_byte_s` covers the time until the reply begins, `idle_s` every silence after that,
    `settle_s` the wait for the end of a stream whose reply is already complete. With `is_final`, a
    request that timed out is not repeated: the server is slow, and would begin again. With
    `looks_up`, the deadlines become `patient` if the server's name resolves to a private address.
    """

    connect_s: float = 10
    first_byte_s: float = 120
    idle_s: float = 60
    settle_s: float = 5
    is_final: bool = False
    looks_up: bool = False

    @classmethod
    def patient(cls, seconds: float) -> "Deadlines":
        """Return deadlines that allow `seconds` of silence, without a retry.

        A dead connection ends the wait earlier.
        """
        return cls(first_byte_s=seconds, idle_s=seconds, is_final=True)


@frozen
class Endpoint:
    """Address and key of a vendor.

    `key_variable` is the variable in which people set the key, `key_source` the source of this key.
    `path` is the path of a model call; `key_header` is the header for the key. `extra_headers` are
    sent unchanged and override the others.
    """

    vendor: str
    api_base: str
    api_key: str = field(default="", repr=False)
    key_variable: str | None = None
    path: str = "/chat/completions"
    key_header: str = "Authorization"
    extra_headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    key_source: str = ""
    proxy: OutboundProxy | None = None

    @property
    def server(self) -> str:
        """A short name of the address, which tells replies of different servers apart."""
        return sha256(self.api_base.encode()).hexdigest()[:12]

    @property
    def secrets(self) -> tuple[str, ...]:
        """Values that must not occur in any error: the key, headers with secrets, the proxy's
        password.
        """
        passwords = self.proxy.secrets if self.proxy else ()
        values = {self.api_key, *secrets_in_map(self.extra_headers), *passwords}
        return tuple(sorted(filter(is_secret_value, values), key=len, reverse=True))

    @property
    def url(self) -> str:
        return f"{self.api_base}{self.path}"

    @property
    def headers(self) -> dict[str, str]:
        """Headers of a request, without compression, which would delay a stream."""
        headers = {
            "Content-Type": "application/json",
            "Accept": "text/event-stream, application/json",
            "Accept-Encoding": "identity",
            "User-Agent": f"kore/{VERSION}",
        }
        if self.api_key:
            bearer = "Bearer " * (self.key_header == "Authorization")
            headers[self.key_header] = f"{bearer}{self.api_key}"
        extra_names = {name.lower() for name in self.extra_headers}
        defaults = {
            name: value for name, value in headers.items() if name.lower() not in extra_names
        }
        return {**defaults, **self.extra_headers}


@frozen
class HttpResponse:
    """HTTP response; header names are in lower case, `chunks` are its body as it arrives."""

    status: int
    headers: Mapping[str, str]
    chunks: AsyncIterator[bytes]


class Transport(Protocol):
    """Transport that sends one body by POST.

    Opening and reading raise `Unavailable`, `TimedOut`, `Rejected` or `BadReply`; any HTTP status
    is an answer. Leaving the context releases the connection, or closes it when unread bytes are
    left.
    """

    def post(self, body: bytes) -> AbstractAsyncContextManager[HttpResponse]: ...

    async def aclose(self) -> None: ...


class AiohttpTransport:
    """Transport with one aiohttp session, opened on first use, and persistent connections."""

    def __init__(self, endpoint: Endpoint, deadlines: Deadlines) -> None:
        self._endpoint = endpoint
        self._deadlines = deadlines
        self._sessions: PerLoop[aiohttp.ClientSession] = PerLoop(self._open_session, _close_session)

    @asynccontextmanager
    async def post(self, body: bytes) -> AsyncIterator[HttpResponse]:
        import aiohttp

        data = BytesIO(body) if len(body) > _LARGE_BODY_BYTES else body
        session = await self._open()
        try:
            async with (
                session.post(self._endpoint.url, data=data, allow_redirects=False) as response,
                aclosing(self._read(response)) as chunks,
            ):
                headers = {name.lower(): value for name, value in response.headers.items()}
                yield HttpResponse(response.status, headers, chunks)
        except aiohttp.ClientError as exc:
            raise connection_failure(exc, self._endpoint) from exc

    async def aclose(self) -> None:
        for session in self._sessions.take():
            await session.close()

    async def _read(self, response: "aiohttp.ClientResponse") -> AsyncGenerator[bytes, None]:
        import aiohttp

        try:
            async for chunk in response.content.iter_any():
                yield chunk
        except aiohttp.ClientError as exc:
            raise connection_failure(exc, self._endpoint) from exc

    async def _open(self) -> "aiohttp.ClientSession":
        for session in self._sessions.take_closed():
            await session.close()
        return self._sessions.get()

    def _open_session(self) -> "aiohttp.ClientSession":
        import aiohttp

        return open_session(
            self._endpoint.proxy,
            connector_options={
                "limit": 0,
                "keepalive_timeout": _KEEPALIVE_TIMEOUT_S,
                "socket_factory": probed_socket,
            },
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=self._deadlines.connect_s),
            headers=self._endpoint.headers,
            cookie_jar=aiohttp.DummyCookieJar(),
        )


async def _close_session(session: "aiohttp.ClientSession") -> None:
    await session.close()


def probed_socket(addr_info: "AddrInfoType") -> socket.socket:
    """Return a socket that the system probes while nothing arrives.

    A server that vanished without closing its connections is noticed after two minutes.
    """
    family, kind, protocol, _, _ = addr_info
    sock = socket.socket(family, kind, protocol)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _PROBES.items():
        # Not every system supports all of them.
        if option := getattr(socket, name, None):
            sock.setsockopt(socket.IPPROTO_TCP, option, value)
    return sock


def proxy_login_missing(proxy: OutboundProxy) -> Rejected:
    text = t("the proxy {proxy} requires a user name and password", proxy=proxy.name)
    return Rejected(text, hint=_proxy_hint())


def _proxy_failure(endpoint: Endpoint, status: int | None = None) -> ProviderError:
    """Return the error for a proxy that refused the connection with `status`, or is missing."""
    proxy = endpoint.proxy
    if proxy is not None and status == 407:
        return proxy_login_missing(proxy)
    return Unavailable(
        t(
            "the proxy {proxy} did not connect to {vendor}",
            proxy=proxy.name if proxy else "?",
            vendor=endpoint.vendor,
        ),
        hint=_proxy_hint(),
    )


def _proxy_hint() -> str:
    return t("Check proxy in model_list, or HTTPS_PROXY and NO_PROXY in the environment.")


def connection_failure(exc: "aiohttp.ClientError", endpoint: Endpoint) -> ProviderError:
    """Return our error for an aiohttp error, with a text that contains no key."""
    import aiohttp

    place = t("{vendor} at {api_base}", vendor=endpoint.vendor, api_base=endpoint.api_base)
    match exc:
        case aiohttp.ClientHttpProxyError(status=status):
            return _proxy_failure(endpoint, status)
        case aiohttp.ClientProxyConnectionError():
            return _proxy_failure(endpoint)
        case aiohttp.ServerTimeoutError():
            return TimedOut(t("connecting to {place} timed out", place=place))
        case aiohttp.ClientSSLError():
            return Rejected(
                t("the TLS certificate of {place} is not trusted", place=place),
                hint=t("Install the system's CA certificates or fix api_base."),
            )
        case aiohttp.InvalidURL():
            return Rejected(
                t("{api_base!r} is not a valid URL; fix api_base", api_base=endpoint.api_base)
            )
        case aiohttp.ClientConnectorDNSError():
            return Unavailable(
                t("could not resolve {place}; check the network or api_base", place=place)
            )
        case aiohttp.ClientConnectorError():
            return Unavailable(
                t("could not connect to {place}", place=place), hint=t("Is the server running?")
            )
        case aiohttp.ClientResponseError():
            return BadReply(t("{place} sent an invalid HTTP response", place=place))
        case _:
            return Unavailable(t("the connection to {place} was lost", place=place))
