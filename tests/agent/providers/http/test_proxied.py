"""Model requests through a proxy from the model's entry or from the environment."""

import os
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agent.errors import ConfigError, ProviderError, Rejected, Unavailable
from agent.events import Reply
from agent.providers.base import ClosingProvider, ModelRequest
from agent.providers.embeddings import EmbeddingClient
from agent.providers.opening import open_provider
from agent.providers.registry import ModelConfig, resolve_model
from agent.types import user
from tests import fork_server
from tests.fakes.model import ModelServer
from tests.fakes.outbound_proxy import HttpProxy, SocksProxy

REQUEST = ModelRequest("fake", "", (user("hi"),))
# Only the proxy can resolve this name.
ADDRESS = "http://models.example/v1"
MODELS = ("openai/fake", "anthropic/fake", "ollama/fake")


@pytest.fixture
async def http_proxy(model_server: ModelServer) -> AsyncIterator[HttpProxy]:
    async with HttpProxy(model_server.port, "me:hidden-word") as proxy:
        yield proxy


def _open(environ: dict[str, str], **entry: object) -> ClosingProvider:
    fields = {"name": "m", "model": "openai/fake", "api_base": ADDRESS, "api_key": "k", **entry}
    return open_provider(resolve_model("m", [ModelConfig(**fields)], environ))  # type: ignore[arg-type]


async def _ask(provider: ClosingProvider) -> str:
    try:
        events = [event async for event in provider.stream(REQUEST)]
    finally:
        await provider.aclose()
    assert isinstance(events[-1], Reply)
    return events[-1].message.text


@pytest.mark.parametrize("model", MODELS)
async def test_environment_proxy_is_used(http_proxy: HttpProxy, model: str) -> None:
    assert await _ask(_open({"HTTP_PROXY": http_proxy.url}, model=model)) == "echo: hi"
    assert http_proxy.targets[0].startswith("http://models.example/")


async def test_configured_proxy_is_used(http_proxy: HttpProxy) -> None:
    environ = {"ALL_PROXY": "http://nobody.example:1"}
    assert await _ask(_open(environ, proxy=http_proxy.url)) == "echo: hi"


# The library passes the login in a way that aiohttp deprecates.
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
async def test_openai_library_uses_the_proxy(http_proxy: HttpProxy) -> None:
    provider = _open({}, proxy=http_proxy.url, transport="sdk")
    assert await _ask(provider) == "echo: hi"


async def test_socks_proxy_resolves_the_name(model_server: ModelServer) -> None:
    pytest.importorskip("aiohttp_socks")
    async with SocksProxy(model_server.port, "me:hidden-word") as proxy:
        assert await _ask(_open({"ALL_PROXY": proxy.url})) == "echo: hi"
    assert proxy.targets == ["models.example:80"]


async def test_embeddings_use_the_proxy(http_proxy: HttpProxy) -> None:
    entry = ModelConfig("m", "openai/fake", ADDRESS, "k", proxy=http_proxy.url)
    client = EmbeddingClient(resolve_model("m", [entry], {}))
    assert len(await client.embed(["one", "two"])) == 2
    await client.aclose()
    assert http_proxy.targets == ["http://models.example/v1/embeddings"]


async def test_loopback_is_reached_without_proxy(
    model_server: ModelServer, http_proxy: HttpProxy
) -> None:
    environ = {"ALL_PROXY": http_proxy.url, "HTTP_PROXY": http_proxy.url}
    assert await _ask(_open(environ, api_base=model_server.base_url)) == "echo: hi"
    assert http_proxy.targets == []


async def test_proxy_none_connects_directly(http_proxy: HttpProxy) -> None:
    config = ModelConfig("m", "openai/fake", ADDRESS, "k", proxy="none")
    assert resolve_model("m", [config], {"ALL_PROXY": http_proxy.url}).proxy == "none"


async def _failure(provider: ClosingProvider) -> ProviderError:
    with pytest.raises(ProviderError) as caught:
        await _ask(provider)
    return caught.value


async def test_https_address_is_tunnelled(model_server: ModelServer) -> None:
    async with HttpProxy(model_server.port, status=403) as proxy:
        error = await _failure(_open({}, api_base="https://models.example/v1", proxy=proxy.url))
    assert proxy.targets == ["models.example:443"]
    assert isinstance(error, Unavailable)
    assert f"127.0.0.1:{proxy.port}" in str(error)


@pytest.mark.parametrize("address", [ADDRESS, "https://models.example/v1"])
async def test_missing_proxy_login_is_reported_without_the_password(
    http_proxy: HttpProxy, address: str
) -> None:
    url = http_proxy.url.replace("hidden-word", "other-word")
    error = await _failure(_open({}, api_base=address, proxy=url))
    assert isinstance(error, Rejected)
    assert "requires a user name" in str(error)
    assert "other-word" not in f"{error} {error.hint}"


@pytest.mark.parametrize("scheme", ["http", "socks5"])
async def test_unreachable_proxy_is_named(scheme: str, unused_tcp_port: int) -> None:
    if scheme == "socks5":
        pytest.importorskip("aiohttp_socks")
    url = f"{scheme}://me:hidden-word@127.0.0.1:{unused_tcp_port}"
    error = await _failure(_open({}, proxy=url))
    assert isinstance(error, Unavailable)
    assert f"{scheme}://127.0.0.1:{unused_tcp_port}" in str(error)
    assert "hidden-word" not in f"{error} {error.hint}"


def test_invalid_proxy_is_rejected() -> None:
    with pytest.raises(ConfigError, match="model 'm': proxy"):
        _open({}, proxy="gopher://x")
    with pytest.raises(ConfigError, match="SOCKS"):
        _open({}, proxy="socks5://127.0.0.1:1", transport="sdk")


TLS_SERVER = """
import asyncio, ssl, sys
from aiohttp import web
from tests.fakes.model import ModelServer

async def main():
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(sys.argv[1] + "/cert.pem", sys.argv[1] + "/key.pem")
    runner = web.AppRunner(ModelServer().app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
    print(runner.addresses[0][1], flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""


async def test_program_reaches_an_https_model_through_connect(tmp_path: Path) -> None:
    import asyncio

    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
         "-nodes", "-days", "2", "-subj", "/CN=models.example", "-addext",
         "subjectAltName=DNS:models.example", "-keyout", "key.pem", "-out", "cert.pem"],
        cwd=tmp_path, capture_output=True, check=True,
    )  # fmt: skip
    server = await fork_server.start_piped(
        ["python", "-c", TLS_SERVER, tmp_path], cwd=tmp_path, env={"PATH": os.environ["PATH"]}
    )
    try:
        port = int(await server.stdout.readline())
        async with HttpProxy(port, "me:hidden-word") as proxy:
            environ = {
                **os.environ,
                "KORE_HOME": str(tmp_path / "home"),
                "KORE_AGENT_MODEL": "openai/fake",
                "OPENAI_BASE_URL": "https://models.example/v1",
                "OPENAI_API_KEY": "sk-test-key",
                "HTTPS_PROXY": proxy.url,
                "SSL_CERT_FILE": str(tmp_path / "cert.pem"),
            }
            program = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "gateway", "agent", "-m", "hi"),
                env=environ, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            )  # fmt: skip
            output, errors = await program.communicate()
    finally:
        server.terminate()
        await server.wait()
    assert b"echo: hi" in output, errors
    assert set(proxy.targets) == {"models.example:443"}
