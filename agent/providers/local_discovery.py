"""Discovery of model servers on this machine, with short timeouts."""

import asyncio
import json
import logging
import os
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

from agent.errors import ConfigError
from agent.providers.vendors import VENDORS
from agent.proxies.outbound import open_session, proxy_for
from agent.records import frozen
from agent.security.local_services import listener_owners

log = logging.getLogger(__name__)

_TIMEOUT_S = 0.5
_TOTAL_TIMEOUT_S = 5.0
_LIMIT_BYTES = 1 << 20
# The accounts of people follow. Ollama's installer makes a system account for its server.
_LAST_SYSTEM_UID = 999
# Programs for local models, with their usual ports.
USUAL = tuple(
    (vendor.name, urlsplit(vendor.api_base).port or 0)
    for vendor in VENDORS.values()
    if not vendor.key_variables
)


@frozen
class LocalServer:
    """Model server on loopback; `models` is empty if none is loaded or pulled."""

    vendor: str
    port: int
    models: tuple[str, ...]

    @property
    def names(self) -> list[str]:
        """The models as `vendor/model`."""
        return [f"{self.vendor}/{model}" for model in self.models]


async def discover_local_servers(
    usual: tuple[tuple[str, int], ...] = USUAL, host: str = "127.0.0.1"
) -> list[LocalServer]:
    """Return the servers that answer on their usual ports; all are asked at once.

    On Linux, a server of another person's account is left out, and the log names it.
    """
    requests = (
        _ollama(host, port) if name == "ollama" else _openai(host, port) for name, port in usual
    )
    answers = await asyncio.gather(*requests)
    return [
        LocalServer(name, port, tuple(models))
        for (name, port), models in zip(usual, answers, strict=True)
        if models is not None and _is_trusted(name, port)
    ]


def _is_trusted(name: str, port: int) -> bool:
    """Return whether only this user, root and system accounts listen on a port.

    Call it after the port has answered: a program that has stopped listening is not trusted.
    Without a list of sockets (macOS, Windows), every listener is trusted.
    """
    owners = listener_owners(port)
    if owners is None:
        return True
    others = {uid for uid in owners if uid > _LAST_SYSTEM_UID and uid != os.geteuid()}
    if owners and not others:
        return True
    log.warning(
        "The model server on port %d is not used: %s. To use it, set agent.model to %s/MODEL",
        port,
        f"it belongs to another user (uid {min(others)})" if others else "its owner is unknown",
        name,
    )
    return False


async def local_models(usual: tuple[tuple[str, int], ...] = USUAL) -> list[str]:
    """Return the models of all servers that answer on their usual ports, as `vendor/model`."""
    return [name for server in await discover_local_servers(usual) for name in server.names]


async def models_at(api_base: str, key: str, *, is_ollama: bool = False) -> list[str]:
    """Return the models of a server, local or remote; empty without a valid answer.

    `api_base` includes the version.
    """
    import aiohttp

    url = f"{api_base}/api/tags" if is_ollama else f"{api_base}/models"
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    timeout = aiohttp.ClientTimeout(total=_TOTAL_TIMEOUT_S)
    try:
        async with (
            open_session(
                proxy_for(api_base, os.environ), timeout=timeout, headers=headers
            ) as session,
            session.get(url, allow_redirects=False) as response,
        ):
            listing = json.loads(await response.content.read(_LIMIT_BYTES))
    except (aiohttp.ClientError, ConfigError, TimeoutError, OSError, ValueError, RecursionError):
        return []
    return (_ollama_names(listing) if is_ollama else _openai_names(listing)) or []


async def _ollama(host: str, port: int) -> list[str] | None:
    return _ollama_names(await _ask(host, port, "/api/tags"))


async def _openai(host: str, port: int) -> list[str] | None:
    return _openai_names(await _ask(host, port, "/v1/models"))


def _ollama_names(listing: Any) -> list[str] | None:
    with suppress(KeyError, TypeError):
        return [str(model["name"]) for model in listing["models"]]
    return None


def _openai_names(listing: Any) -> list[str] | None:
    """Return the names from `GET /v1/models`, without embedding models."""
    with suppress(KeyError, TypeError):
        names = [str(model["id"]) for model in listing["data"]]
        return [name for name in names if "embed" not in name.lower()]
    return None


async def _ask(host: str, port: int, path: str) -> Any:
    """Return the JSON answer; None without a valid answer in time."""
    with suppress(OSError, TimeoutError, ValueError, RecursionError):
        async with asyncio.timeout(_TIMEOUT_S):
            return json.loads(await _get(host, port, path))
    return None


async def _get(host: str, port: int, path: str) -> bytes:
    reader, writer = await asyncio.open_connection(host, port)
    try:
        # HTTP/1.0 avoids chunked answers and persistent connections.
        writer.write(f"GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n".encode())
        answer = b""
        # The port may belong to another program, which may never stop sending.
        while len(answer) < _LIMIT_BYTES and (chunk := await reader.read(_LIMIT_BYTES)):
            answer += chunk
    finally:
        writer.close()
    return answer.partition(b"\r\n\r\n")[2]
