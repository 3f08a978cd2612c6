"""MCP servers that an editor requests for a session."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from acp.schema import HttpMcpServer, McpServerStdio, SseMcpServer

from agent.errors import KoreError
from agent.i18n import t
from agent.text.visible import escape_line
from gateway.control.service import Service
from gateway.core.errors import ConnectionLost
from gateway.core.records import SessionServer
from gateway.core.tasks import Start


class EditorServers:
    """MCP servers of a conversation, running from `begin` to `end`.

    `start` starts the task that keeps them running.
    """

    def __init__(self, descriptions: Sequence[Any], start: Start) -> None:
        self._servers, self._failures = read_servers(descriptions)
        self._start = start
        self._service: Service | None = None
        self._task: asyncio.Task[None] | None = None
        self._ready = asyncio.Event()

    def begin(self, service: Service, lane: str) -> None:
        """Attach the servers to the lane; call it again after the service was lost."""
        if not self._servers:
            return
        is_kept = self._task is not None and not self._task.done()
        if is_kept and self._service is service:
            return
        if self._task is not None:
            self._task.cancel()
        self._service, self._ready = service, asyncio.Event()
        self._task = self._start(self._keep(service, lane, self._ready))

    async def wait(self) -> None:
        """Wait until each server has listed its tools or has failed."""
        if self._task is not None:
            await self._ready.wait()

    def take_failures(self) -> list[str]:
        """Return and clear the error messages of failed servers."""
        failures, self._failures = self._failures, []
        return failures

    async def end(self) -> None:
        """Stop the servers."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait({task})

    async def _keep(self, service: Service, lane: str, ready: asyncio.Event) -> None:
        try:
            async with service.attach_servers(lane, self._servers) as followed:
                async for failures in followed:
                    self._failures += failures
                    ready.set()
        except ConnectionLost:
            # The next prompt connects to the successor and attaches the servers again.
            pass
        except KoreError as exc:
            self._failures.append(str(exc))
            # Another attempt would fail in the same way.
            self._servers = ()
        finally:
            ready.set()


def read_servers(descriptions: Sequence[Any]) -> tuple[tuple[SessionServer, ...], list[str]]:
    """Convert descriptions to servers; return them and the errors of invalid ones."""
    servers: dict[str, SessionServer] = {}
    failures: list[str] = []
    for description in descriptions:
        server: SessionServer | None = None
        match description:
            case McpServerStdio():
                env = {variable.name: variable.value for variable in description.env}
                server = SessionServer(
                    description.name, description.command, tuple(description.args), env
                )
            case HttpMcpServer() | SseMcpServer():
                headers = {header.name: header.value for header in description.headers}
                is_sse = isinstance(description, SseMcpServer)
                if _is_address(description.url):
                    server = SessionServer(
                        description.name, url=description.url, headers=headers, is_sse=is_sse
                    )
        name = escape_line(str(getattr(description, "name", "")))[:80]
        if server is None:
            failures.append(
                t(
                    "The MCP server {name} cannot be used; expected a command, or an address that "
                    "begins with http:// or https://.",
                    name=name,
                )
            )
        elif server.name in servers:
            failures.append(
                t("The editor names two MCP servers {name}; the first is used.", name=name)
            )
        else:
            servers[server.name] = server
    return tuple(servers.values()), failures


def _is_address(url: str) -> bool:
    from urllib.parse import urlsplit

    with suppress(ValueError):
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname)
    return False
