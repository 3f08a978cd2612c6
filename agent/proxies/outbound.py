"""Proxies and trusted certificates for outgoing requests.

A proxy is configured or comes from the environment; loopback never has one.
"""

import re
import ssl
from collections.abc import Mapping
from dataclasses import field
from importlib.util import find_spec
from ipaddress import ip_address, ip_network
from typing import TYPE_CHECKING, Any
from urllib.parse import SplitResult, unquote, urlsplit

from agent.errors import ConfigError
from agent.i18n import t
from agent.records import frozen

if TYPE_CHECKING:
    import aiohttp


# As a setting: no proxy, regardless of the environment.
DIRECT = "none"

_HTTP = ("http", "https")
_SOCKS = ("socks4", "socks4a", "socks5", "socks5h")
# The extra `socks`: for aiohttp, and for httpx.
_SOCKS_PACKAGES = ("aiohttp_socks", "socksio")
_USUAL_PORTS = {"http": 80, "https": 443, "ws": 80, "wss": 443}


@frozen
class OutboundProxy:
    """Proxy; its `url` may contain a password."""

    url: str = field(repr=False)

    @property
    def name(self) -> str:
        """Proxy as shown to people: its address without user name and password."""
        return _without_login(self.url)

    @property
    def is_socks(self) -> bool:
        return self.url.partition(":")[0] in _SOCKS

    @property
    def secrets(self) -> tuple[str, ...]:
        """Password, plain and percent-encoded."""
        password = urlsplit(self.url).password or ""
        return tuple({password, unquote(password)} - {""})


def read_proxy(text: str) -> OutboundProxy:
    """Return the proxy at an address such as http://HOST:PORT. Raises `ConfigError`."""
    text = text.strip()
    # As curl reads it: without a scheme it is an HTTP proxy.
    url = text if "://" in text else f"http://{text}"
    parts = _split(url)
    if parts is None or parts.scheme not in (*_HTTP, *_SOCKS) or not parts.hostname:
        raise ConfigError(
            t(
                "proxy: expected http://HOST:PORT, https://HOST:PORT, socks5://HOST:PORT or"
                ' "none", found {found!r}',
                found=_without_login(text),
            )
        )
    return OutboundProxy(url.rstrip("/"))


def proxy_for(
    url: str, environ: Mapping[str, str], configured: str | None = None
) -> OutboundProxy | None:
    """Return the proxy for requests to an address; None to connect directly.

    A `configured` proxy overrides HTTP_PROXY, HTTPS_PROXY, ALL_PROXY and NO_PROXY in the
    environment. Raises `ConfigError` for an invalid address.
    """
    parts = _split(url)
    if parts is None or not parts.hostname or _is_loopback(parts.hostname):
        return None
    if configured:
        return None if configured == DIRECT else read_proxy(configured)
    text = _variable(environ, f"{parts.scheme}_proxy") or _variable(environ, "all_proxy")
    if not text or _is_exempt(parts, _variable(environ, "no_proxy")):
        return None
    return read_proxy(text)


def open_session(proxy: OutboundProxy | None, **options: Any) -> "aiohttp.ClientSession":
    """Return an aiohttp session whose requests use the proxy.

    `options` are passed to `aiohttp.ClientSession`, and `connector_options` to its connector.
    Raises `ConfigError` when a SOCKS proxy needs a package that is missing.
    """
    import aiohttp

    connector_options = options.pop("connector_options", {})
    if proxy is None:
        connector = aiohttp.TCPConnector(**connector_options)
        return aiohttp.ClientSession(connector=connector, **options)
    if proxy.is_socks:
        return aiohttp.ClientSession(
            connector=_socks_connector(proxy, connector_options), **options
        )
    connector = aiohttp.TCPConnector(**connector_options)
    return aiohttp.ClientSession(connector=connector, proxy=proxy.url, **options)


class HttpSessions:
    """Sessions for outgoing requests, one for each proxy, opened when they are needed."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ
        self._sessions: dict[str | None, aiohttp.ClientSession] = {}

    def session_for(self, url: str, proxy: str | None = None) -> "aiohttp.ClientSession":
        """Return the session for requests to an address; it stores no cookies.

        A configured `proxy` overrides the environment, as in `proxy_for`. Raises `ConfigError` for
        an unusable proxy.
        """
        outbound = proxy_for(url, self._environ, proxy)
        key = outbound.url if outbound else None
        if key not in self._sessions:
            from aiohttp import DummyCookieJar

            self._sessions[key] = open_session(outbound, cookie_jar=DummyCookieJar())
        return self._sessions[key]

    async def aclose(self) -> None:
        for session in self._sessions.values():
            await session.close()


def ensure_usable(proxy: OutboundProxy | None) -> None:
    """Raise `ConfigError` when a package for SOCKS proxies is missing."""
    if proxy is not None and proxy.is_socks and not all(map(find_spec, _SOCKS_PACKAGES)):
        raise ConfigError(
            t("the proxy {proxy} needs a package that is not installed", proxy=proxy.name),
            hint=t("install it: pip install 'kore-assistant[socks]'"),
        )


def _socks_connector(proxy: OutboundProxy, options: Mapping[str, Any]) -> "aiohttp.BaseConnector":
    ensure_usable(proxy)
    from agent.proxies.socks_connector import SocksConnector

    scheme, _, rest = proxy.url.partition(":")
    # The proxy resolves the names, because the machine may have no DNS for public names.
    url = f"{scheme.removesuffix('h').removesuffix('a')}:{rest}"
    connector: aiohttp.BaseConnector = SocksConnector.from_url(url, rdns=True, **options)
    return connector


def _variable(environ: Mapping[str, str], name: str) -> str:
    """Return a variable in either case; a server's HTTP_PROXY may come from a request (CGI)."""
    if value := environ.get(name):
        return value.strip()
    is_forged = name == "http_proxy" and "REQUEST_METHOD" in environ
    return "" if is_forged else environ.get(name.upper(), "").strip()


def _is_exempt(parts: SplitResult, no_proxy: str) -> bool:
    """Return whether NO_PROXY names the host: itself, a domain above it, or its network."""
    host = (parts.hostname or "").rstrip(".")
    port = parts.port or _USUAL_PORTS.get(parts.scheme)
    for entry in filter(None, re.split(r"[,\s]+", no_proxy.lower())):
        if entry == "*":
            return True
        name, colon, entry_port = entry.rpartition(":")
        if colon and entry_port.isdecimal() and (":" not in name or name.endswith("]")):
            if int(entry_port) != port:
                continue
            entry = name
        entry = entry.strip("[]").removeprefix("*").strip(".")
        if host == entry or host.endswith(f".{entry}") or _is_in_network(host, entry):
            return True
    return False


def _is_in_network(host: str, network: str) -> bool:
    try:
        return ip_address(host) in ip_network(network, strict=False)
    except ValueError:
        return False


def _is_loopback(host: str) -> bool:
    host = host.rstrip(".").lower()
    try:
        return ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def _without_login(url: str) -> str:
    scheme, _, rest = url.rpartition("://")
    address = rest.rpartition("@")[2]
    return f"{scheme}://{address}" if scheme else address


def _split(url: str) -> SplitResult | None:
    try:
        parts = urlsplit(url)
        # Reading the port checks it.
        return parts if parts.port != 0 else None
    except ValueError:
        return None


def through(proxy: OutboundProxy | None) -> str:
    """Return the end of a sentence that names the proxy in use; empty without a proxy."""
    return t(" through the proxy {proxy}", proxy=proxy.name) if proxy else ""


def trust_store() -> ssl.SSLContext:
    """Return a context that trusts the certificates of the system or of the environment.

    The variables are SSL_CERT_FILE and SSL_CERT_DIR. aiohttp creates the same context when it is
    imported. httpx would choose a context depending on its options and the platform, so every httpx
    client receives this one.
    """
    return ssl.create_default_context()
