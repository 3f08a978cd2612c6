"""Choice of the proxy for an address, and sessions through real proxies."""

import aiohttp
import pytest

from agent.errors import ConfigError
from agent.proxies.outbound import HttpSessions, open_session, proxy_for, read_proxy
from tests.fakes.model import ModelServer
from tests.fakes.outbound_proxy import HttpProxy, SocksProxy

PROXY = "http://proxy.example:3128"
OTHER = "http://other.example:3128"


@pytest.mark.parametrize(
    ("url", "environ", "expected"),
    [
        ("https://api.example/v1", {}, None),
        ("https://api.example/v1", {"HTTPS_PROXY": PROXY}, PROXY),
        ("https://api.example/v1", {"https_proxy": PROXY, "HTTPS_PROXY": OTHER}, PROXY),
        ("https://api.example/v1", {"HTTP_PROXY": PROXY}, None),
        ("http://api.example/v1", {"HTTP_PROXY": PROXY}, PROXY),
        ("http://api.example/v1", {"HTTP_PROXY": PROXY, "REQUEST_METHOD": "GET"}, None),
        ("https://api.example/v1", {"ALL_PROXY": PROXY}, PROXY),
        ("https://api.example/v1", {"ALL_PROXY": OTHER, "HTTPS_PROXY": PROXY}, PROXY),
        ("https://api.example/v1", {"ALL_PROXY": "socks5h://p:1080"}, "socks5h://p:1080"),
        ("https://api.example/v1", {"ALL_PROXY": "proxy.example:3128"}, PROXY),
        ("https://api.example/v1", {"ALL_PROXY": ""}, None),
        ("http://192.168.1.5:11434", {"ALL_PROXY": PROXY}, PROXY),
    ],
)
def test_environment_proxy_is_used(url: str, environ: dict[str, str], expected: str | None) -> None:
    proxy = proxy_for(url, environ)
    assert (proxy.url if proxy else None) == expected


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:11434",
        "http://localhost:8000/v1",
        "http://[::1]:1/v1",
        "http://a.localhost",
        "http://127.5.0.1/v1",
        "http://LOCALHOST./v1",
    ],
)
def test_loopback_bypasses_the_proxy(url: str) -> None:
    assert proxy_for(url, {"ALL_PROXY": PROXY}) is None
    assert proxy_for(url, {}, PROXY) is None


@pytest.mark.parametrize(
    ("url", "no_proxy", "is_exempt"),
    [
        ("https://api.example/v1", "api.example", True),
        ("https://api.example/v1", ".example", True),
        ("https://api.example/v1", "*.example", True),
        ("https://api.example/v1", "example", True),
        ("https://api.example/v1", "ample", False),
        ("https://api.example/v1", "*", True),
        ("https://api.example/v1", "other, API.EXAMPLE ", True),
        ("https://api.example/v1", "api.example:443", True),
        ("https://api.example/v1", "api.example:8443", False),
        ("http://192.168.1.5:11434", "192.168.0.0/16", True),
        ("http://192.168.1.5:11434", "192.168.1.5:11434", True),
        ("http://192.169.1.5:11434", "192.168.0.0/16", False),
        ("http://[fd00::2]:8000/v1", "fd00::/8", True),
        ("http://[fd00::2]:8000/v1", "[fd00::2]:8000", True),
        ("https://api.example/v1", ",", False),
    ],
)
def test_no_proxy_exempts_hosts(url: str, no_proxy: str, is_exempt: bool) -> None:
    assert (proxy_for(url, {"ALL_PROXY": PROXY, "NO_PROXY": no_proxy}) is None) is is_exempt


def test_configured_proxy_wins() -> None:
    environ = {"ALL_PROXY": OTHER, "NO_PROXY": "*"}
    proxy = proxy_for("https://api.example/v1", environ, PROXY)
    assert proxy is not None
    assert proxy.url == PROXY
    assert proxy_for("https://api.example/v1", {"ALL_PROXY": OTHER}, "none") is None


@pytest.mark.parametrize("text", ["ftp://x:1", "http://", "http://x:99999", "socks6://x:1", ""])
def test_invalid_proxy_is_rejected(text: str) -> None:
    with pytest.raises(ConfigError, match="proxy"):
        read_proxy(text)


def test_password_is_never_shown() -> None:
    proxy = read_proxy("http://me:p%40ss@proxy.example:3128/")
    assert proxy.name == PROXY
    assert set(proxy.secrets) == {"p%40ss", "p@ss"}
    assert "p%40ss" not in repr(proxy)
    with pytest.raises(ConfigError) as caught:
        read_proxy("ftp://me:secret@proxy.example")
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("login", ["", "me:p@ss word"])
async def test_requests_go_through_an_http_proxy(model_server: ModelServer, login: str) -> None:
    async with HttpProxy(model_server.port, login) as server:
        url = f"http://me:p%40ss%20word@127.0.0.1:{server.port}" if login else server.url
        async with (
            open_session(read_proxy(url)) as session,
            session.get("http://models.example/v1/models") as response,
        ):
            assert response.status == 200
    assert server.targets == ["http://models.example/v1/models"]


@pytest.mark.parametrize("login", ["", "me:secret"])
@pytest.mark.parametrize("scheme", ["socks5", "socks5h"])
async def test_requests_go_through_a_socks_proxy(
    model_server: ModelServer, scheme: str, login: str
) -> None:
    pytest.importorskip("aiohttp_socks")
    async with SocksProxy(model_server.port, login) as server:
        url = server.url.replace("socks5", scheme)
        async with (
            open_session(read_proxy(url)) as session,
            session.get("http://models.example/v1/models") as response,
        ):
            assert response.status == 200
    # The proxy resolves the name.
    assert server.targets == ["models.example:80"]


async def test_refused_socks_connection_is_an_aiohttp_error(model_server: ModelServer) -> None:
    pytest.importorskip("aiohttp_socks")
    async with (
        SocksProxy(model_server.port, status=403) as server,
        open_session(read_proxy(server.url)) as session,
    ):
        with pytest.raises(aiohttp.ClientProxyConnectionError):
            await session.get("http://models.example/v1/models")


async def test_requests_through_one_proxy_share_a_session() -> None:
    sessions = HttpSessions({"HTTPS_PROXY": "http://proxy:3128", "NO_PROXY": "near.example"})
    far = sessions.session_for("https://far.example/a")
    near = sessions.session_for("https://near.example/a")
    assert far is sessions.session_for("https://other.example/b")
    assert near is sessions.session_for("https://far.example/c", proxy="none")
    assert near is sessions.session_for("http://127.0.0.1:1/")
    assert far is not near
    await sessions.aclose()
    assert far.closed
    assert near.closed


async def test_shared_session_goes_through_the_proxy(model_server: ModelServer) -> None:
    async with HttpProxy(model_server.port) as server:
        sessions = HttpSessions({"HTTP_PROXY": server.url})
        url = "http://models.example/v1/models"
        async with sessions.session_for(url).get(url) as response:
            assert response.status == 200
        await sessions.aclose()
    assert server.targets == [url]
