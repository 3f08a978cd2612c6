"""Real server on a loopback port, over real parts."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp

from gateway.control.declaration import SCOPES, CallScope
from gateway.server.listener import DEFAULT_CONNECTIONS, ListenAddress, ServerOptions, serve
from gateway.server.timeouts import ServerTimeouts
from gateway.server.tokens import TokenFile
from tests.fakes.gated import Gated
from tests.gateway.parts import Parts, running


class Served:
    """A server at `address`; `secrets` maps each scope to a token."""

    def __init__(self, parts: Parts, address: str, tokens: TokenFile) -> None:
        self.parts = parts
        self.address = address
        self.tokens = tokens
        self.secrets = {scope: tokens.add(scope, (scope,)) for scope in SCOPES}

    def session(self, scope: CallScope | None = "admin", **headers: str) -> aiohttp.ClientSession:
        """Return a client with the token of the scope, or without a token."""
        if scope is not None:
            headers["Authorization"] = f"Bearer {self.secrets[scope]}"
        return aiohttp.ClientSession(self.address, headers=headers)

    async def call(self, name: str, scope: CallScope = "admin", /, **arguments: Any) -> Any:
        """Return the status, and the value or the error code."""
        async with (
            self.session(scope) as session,
            session.post(f"/v1/calls/{name}", json=arguments) as response,
        ):
            data: Mapping[str, Any] = await response.json()
        return response.status, data["value"] if response.status == 200 else data["error"]["code"]


@asynccontextmanager
async def served(
    folder: Path,
    script: Any = None,
    hosts: Sequence[str] = (),
    max_connections: int = DEFAULT_CONNECTIONS,
    timeouts: ServerTimeouts | None = None,
    **more: Any,
) -> AsyncIterator[Served]:
    provider = script or Gated(is_open=lambda text: text != "long")
    tokens = TokenFile(folder / "tokens.json")
    options = ServerOptions(
        ListenAddress(port=0),
        hosts=hosts,
        max_connections=max_connections,
        timeouts=timeouts or ServerTimeouts(),
    )
    async with (
        running(folder, provider, **more) as parts,
        serve(parts.service, tokens, options) as access,
    ):
        parts.app.access.token_role = tokens.role_of
        yield Served(parts, access.web, tokens)
