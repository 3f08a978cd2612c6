"""Command `kore mcp serve`: MCP server that lets other programs use Kore."""

import argparse
import asyncio
import io
import json
import os
import secrets
import socket
import sys
import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from functools import wraps
from typing import TYPE_CHECKING, Any

from agent.errors import ConfigError, KoreError
from agent.i18n import t
from agent.prompts import load_prompt
from agent.version import VERSION
from gateway.cli.chat.one_shot import OneShotRequest, OneShotTurn
from gateway.cli.chat.service_connection import ServiceConnection, open_connection
from gateway.cli.folders import data_dir_of
from gateway.cli.service_link import settings_or_last_valid
from gateway.config import Settings
from gateway.core.messages import MessageOptions
from gateway.core.records import NewJob
from gateway.runtime.log_setup import open_logs
from gateway.runtime.paths import DataDir
from gateway.turns.agents.profiles import agent_option

if TYPE_CHECKING:
    from mcp.server import MCPServer


# Tools that are enabled by default. `send_message` is not, because it reaches a person's phone.
_DEFAULT_TOOLS = ("ask", "search_conversations")
_TOOLS = (*_DEFAULT_TOOLS, "send_message")
_MIN_TOKEN_CHARS = 16
_MAX_HITS = 50


def run(args: argparse.Namespace) -> int:
    """Serve until the client ends. Raises `ConfigError`, `KoreError`."""
    tools = tuple(args.tools.replace(" ", "").split(",")) if args.tools else _DEFAULT_TOOLS
    if unknown := next((name for name in tools if name not in _TOOLS), None):
        raise ConfigError(
            t(
                "--tools: there is no {name}; there are {names}",
                name=unknown,
                names=", ".join(_TOOLS),
            )
        )
    settings, home = settings_or_last_valid(args), data_dir_of(args)
    home.ensure()
    # Standard output is for the protocol.
    open_logs(settings, args.crash.redactor, terminal=False, default_file=home.logs / "mcp.log")
    folder = str(args.cwd.resolve()) if args.cwd else None
    options = MessageOptions(mode=args.permission_mode, cwd=folder)
    if args.agent is not None:
        options = replace(options, agent=agent_option(home, settings, args.agent, folder))
    return asyncio.run(_serve(settings, home, options, tools, args.port))


class KoreTools:
    """Tools of the MCP server.

    `options` are the agent's permissions for the clients. Actions that need an approval are denied,
    because no person is present.
    """

    def __init__(self, connection: ServiceConnection, options: MessageOptions) -> None:
        self._connection = connection
        self._options = replace(options, unattended=True)

    def functions(self) -> Mapping[str, Callable[..., Awaitable[Any]]]:
        """Return the tools by name."""
        return {
            "ask": self.ask,
            "search_conversations": self.search_conversations,
            "send_message": self.send_message,
        }

    async def ask(self, message: str, session: str | None = None) -> dict[str, Any]:
        """Ask the agent; return its answer and the session for further questions."""
        out = io.StringIO()
        request = OneShotRequest(message, "json", session, options=self._options)
        turn = OneShotTurn(self._connection, request, out, io.StringIO())
        await turn.run(asyncio.Event())
        summary: dict[str, Any] = json.loads(out.getvalue())
        if (error := summary.get("error")) is not None and not summary.get("text"):
            raise KoreError(str(error["message"]))
        return {"answer": summary["text"], "session": summary["session_id"]}

    async def search_conversations(self, words: str, limit: int = 10) -> list[dict[str, Any]]:
        """Search the conversations, best matches first."""
        hits = await self._connection.service.search_messages(words, min(max(1, limit), _MAX_HITS))
        return [
            {key: value for key, value in asdict(hit).items() if key != "marks"} for hit in hits
        ]

    async def send_message(self, text: str) -> str:
        """Send a message to the owner, in the chat that they used last."""
        job = NewJob(key=uuid.uuid4().hex, when="in 1s", text=text, urgent=True)
        return await self._connection.service.add_job(job)


async def _serve(
    settings: Settings,
    home: DataDir,
    options: MessageOptions,
    tools: Sequence[str],
    port: int | None,
) -> int:
    """Serve over stdio, or on this port of 127.0.0.1. Raises `ConfigError`, `KoreError`."""
    async with open_connection(settings, home) as connection:
        server = _server(KoreTools(connection, options), tools)
        if port is None:
            with suppress(BrokenPipeError):
                await server.run_stdio_async()
            return 0
        await _serve_http(server, port)
    return 0


def _server(kore: KoreTools, names: Sequence[str]) -> "MCPServer[Any]":
    from mcp.server import MCPServer
    from mcp.types import ToolAnnotations

    server: MCPServer[Any] = MCPServer("kore", version=VERSION, log_level="ERROR")
    for name, function in kore.functions().items():
        if name in names:
            server.add_tool(
                _with_tool_errors(function),
                name=name,
                description=load_prompt(f"mcp/serve_{name}"),
                annotations=ToolAnnotations(read_only_hint=name == "search_conversations"),
            )
    return server


def _with_tool_errors(function: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
    """Return the function with errors converted to messages for the client."""
    from mcp.server.mcpserver.exceptions import ToolError

    @wraps(function)
    async def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return await function(*args, **kwargs)
        except KoreError as exc:
            raise ToolError(str(exc)) from exc

    return call


async def _serve_http(server: "MCPServer[Any]", port: int) -> None:
    import uvicorn

    token = os.environ.get("KORE_MCP_TOKEN") or secrets.token_urlsafe(24)
    if len(token) < _MIN_TOKEN_CHARS:
        raise ConfigError(
            t(
                "KORE_MCP_TOKEN is too short: at least {least} characters are required",
                least=_MIN_TOKEN_CHARS,
            )
        )
    try:
        listener = socket.create_server(("127.0.0.1", port))
    except (OSError, OverflowError) as exc:
        reason = os.strerror(exc.errno or 0) if isinstance(exc, OSError) else str(exc)
        raise KoreError(
            t("port {port} cannot be used: {reason}", port=port, reason=reason),
            hint=t("choose another with --port, or 0 for any that is free"),
        ) from None
    application = _with_token(server.streamable_http_app(), token)
    # Print the address after the socket is listening, so that clients can connect immediately.
    print(f"http://127.0.0.1:{listener.getsockname()[1]}/mcp", file=sys.stderr, flush=True)
    if "KORE_MCP_TOKEN" not in os.environ:
        print(f"Authorization: Bearer {token}", file=sys.stderr)
    config = uvicorn.Config(application, log_level="error")
    with listener:
        await uvicorn.Server(config).serve(sockets=[listener])


def _with_token(application: Any, token: str) -> Any:
    """Wrap the application so that requests need the token."""
    expected = f"Bearer {token}".encode()

    async def guarded(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            value = dict(scope["headers"]).get(b"authorization", b"")
            if not secrets.compare_digest(value, expected):
                headers = [(b"www-authenticate", b"Bearer"), (b"content-length", b"0")]
                start = {"type": "http.response.start", "status": 401, "headers": headers}
                await send(start)
                await send({"type": "http.response.body", "body": b""})
                return
        await application(scope, receive, send)

    return guarded
