"""Timeouts and repeated requests with slow model servers."""

import asyncio
import socket

import pytest

from agent.errors import TimedOut
from agent.events import Reply
from agent.providers.base import ModelRequest
from agent.providers.http.private_address import SILENCE_TIMEOUT_S, is_private_host
from agent.providers.http.transport import Deadlines, Endpoint, probed_socket
from agent.providers.openai.provider import OpenAICompatibleProvider
from agent.providers.opening import deadlines_of
from agent.providers.pool import ModelPool
from agent.providers.registry import ModelConfig, resolve_model
from agent.types import user
from tests.fakes.model import ModelServer
from tests.fakes.model_script import Break, ReplyScript

KEYS = {"OPENAI_API_KEY": "k", "ANTHROPIC_API_KEY": "k"}
REQUEST = ModelRequest("fake", "", (user("hi"),))
HANGING = ReplyScript(text="one two three", breaks=Break("hang", 0))


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "localhost",
        "LOCALHOST.",
        "::1",
        "192.168.1.5",
        "10.0.0.2",
        "172.16.3.4",
        "100.64.1.2",
        "fe80::1%eth0",
        "fd00::2",
        "ollama",
        "gpu.lan",
        "box.local",
        "host.docker.internal",
    ],
)
def test_nearby_servers_get_long_deadlines(host: str) -> None:
    assert is_private_host(host) is True
    address = f"http://[{host}]:8000/v1" if ":" in host else f"http://{host}:8000/v1"
    config = resolve_model("m", [ModelConfig("m", "openai/x", address, "k")], {})
    assert deadlines_of(config) == Deadlines.patient(SILENCE_TIMEOUT_S)


@pytest.mark.parametrize("model", ["ollama/llama3.2", "vllm/x", "lmstudio/x"])
def test_local_vendors_get_long_deadlines(model: str) -> None:
    assert deadlines_of(resolve_model(model, [], {})) == Deadlines.patient(SILENCE_TIMEOUT_S)


@pytest.mark.parametrize("model", ["openai/gpt-5-mini", "anthropic/claude-haiku-4-5"])
def test_internet_vendors_get_the_usual_deadlines(model: str) -> None:
    assert deadlines_of(resolve_model(model, [], KEYS)) == Deadlines()


def test_deadlines_of_another_host_depend_on_its_address() -> None:
    config = ModelConfig("m", "openai/x", "https://models.example.com/v1", "k")
    assert deadlines_of(resolve_model("m", [config], {})) == Deadlines(looks_up=True)


@pytest.mark.parametrize("host", ["93.184.215.14", "198.18.0.7"])
def test_public_and_transparent_proxy_addresses_get_the_usual_deadlines(
    host: str,
) -> None:
    config = ModelConfig("m", "openai/x", f"http://{host}/v1", "k")
    assert deadlines_of(resolve_model("m", [config], {})) == Deadlines()


def test_timeout_of_the_model_wins() -> None:
    config = ModelConfig("m", "ollama/x", timeout_s=7.0)
    assert deadlines_of(resolve_model("m", [config], {})) == Deadlines.patient(7.0)


async def test_name_with_a_private_address_gets_long_deadlines(model_server: ModelServer) -> None:
    model_server.script(ReplyScript(text="slow", latency_s=0.5))
    short = Deadlines(first_byte_s=0.1, looks_up=True)
    provider = OpenAICompatibleProvider(
        Endpoint("openai", model_server.base_url, "k"), deadlines=short
    )
    reply = [event async for event in provider.stream(REQUEST)][-1]
    await provider.aclose()
    assert isinstance(reply, Reply)
    assert reply.message.text == "slow"


async def test_timeout_of_a_slow_server_is_not_retried(model_server: ModelServer) -> None:
    model_server.script(HANGING, HANGING, HANGING)
    config = ModelConfig("m", "openai/fake", model_server.base_url, "k", timeout_s=0.2)
    models = ModelPool("m", [config])

    async def ask() -> None:
        async for _ in models.open().provider.stream(REQUEST):
            pass

    with pytest.raises(TimedOut) as caught:
        await ask()
    await models.aclose()
    assert len(model_server.requests) == 1
    assert "timeout_s" in (caught.value.hint or "")


async def test_timeout_of_another_server_is_retried(model_server: ModelServer) -> None:
    model_server.script(HANGING)
    provider = OpenAICompatibleProvider(
        Endpoint("openai", model_server.base_url, "k"), deadlines=Deadlines(first_byte_s=0.2)
    )
    with pytest.raises(TimedOut) as caught:
        assert [event async for event in provider.stream(REQUEST)] == []
    await provider.aclose()
    assert caught.value.retryable
    assert caught.value.hint is None


async def test_socket_detects_a_vanished_server() -> None:
    infos = await asyncio.get_running_loop().getaddrinfo("127.0.0.1", 1, type=socket.SOCK_STREAM)
    with probed_socket(infos[0]) as sock:
        assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 60
