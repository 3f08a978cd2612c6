"""References to servers in a person's message: `@server:uri` for resources, `/server:prompt` for
prompts."""

import re
import shlex
from collections.abc import Collection
from typing import TYPE_CHECKING

from agent.errors import ToolError
from agent.mcp.listing import McpPrompt
from agent.mcp.resources import read_resource
from agent.mcp.results import content_parts
from agent.mcp.servers import McpServers
from agent.prompts import render_prompt
from agent.records import frozen
from agent.security.taint.taint import BOTH, NOTHING, UNTRUSTED
from agent.types import Taint

if TYPE_CHECKING:
    from mcp import Client

_RESOURCE = re.compile(r"(?:(?<=[\s(\[{,;:])|^)@([A-Za-z0-9][\w-]*):([^\s\"]*[^\s\".,;:!?)\]}])")
_PROMPT = re.compile(r"/([A-Za-z0-9][\w-]*):([^\s/]+)(?:\s+(.*))?\Z", re.DOTALL)
MAX_CHARS = 60_000
_MAX_RESOURCES = 10


@frozen
class ServerQuotes:
    """Quoted texts for the model, and their taint."""

    texts: tuple[str, ...] = ()
    taint: frozenset[Taint] = NOTHING


def named_servers(text: str, servers: McpServers) -> tuple[str, ...]:
    """Return the servers that a message may refer to."""
    names = [match[1] for match in _RESOURCE.finditer(text)]
    if match := _PROMPT.match(text):
        names.append(match[1])
    return tuple(dict.fromkeys(name for name in names if name in servers.names))


@frozen
class PromptCall:
    """Prompt of a server that a person calls: `/server:prompt arguments`."""

    server: str
    prompt: str
    arguments: str


def prompt_call(text: str, names: Collection[str]) -> PromptCall | None:
    """Return the call at the beginning of a message, or None if it calls none of these servers."""
    match = _PROMPT.match(text)
    if match is None or match[1] not in names:
        return None
    return PromptCall(match[1], match[2], match[3] or "")


async def server_quotes(text: str, servers: McpServers, names: Collection[str]) -> ServerQuotes:
    """Return the resources and prompts that a message refers to, or the reasons for failures."""
    texts: list[str] = []
    taint = NOTHING
    if (call := prompt_call(text, names)) is not None:
        taint |= _taint(servers, call.server)
        texts.append(await _prompt(servers, call.server, call.prompt, call.arguments))
    for match in list(_RESOURCE.finditer(text))[:_MAX_RESOURCES]:
        server, uri = match[1], match[2]
        if server in names:
            taint |= _taint(servers, server)
            texts.append(await _resource(servers, server, uri))
    return ServerQuotes(tuple(texts), taint)


async def _resource(servers: McpServers, server: str, uri: str) -> str:
    connection = servers.connection(server)
    try:
        result = await connection.request(
            lambda client: read_resource(client, uri),
            connection.server.timeout_s,
            operation=f"the resource {uri}",
        )
    except ToolError as exc:
        return f"[{exc}]"
    words = result.for_model[:MAX_CHARS]
    return render_prompt("mcp/resource", server=server, uri=uri, text=words)


async def _prompt(servers: McpServers, server: str, name: str, words: str) -> str:
    try:
        if servers.listing(server) is None:
            await servers.refresh(server)
        listing = servers.listing(server)
        prompts = listing.prompts if listing is not None else ()
        prompt = next((candidate for candidate in prompts if candidate.name == name), None)
        if prompt is None:
            names = ", ".join(candidate.name for candidate in prompts) or "none"
            raise ToolError(f"The MCP server {server} has no prompt {name}; there are: {names}.")
        arguments = _arguments(prompt, words)

        async def work(client: "Client") -> str:
            result = await client.get_prompt(name, arguments)
            lines = []
            for message in result.messages:
                parts, _ = content_parts([message.content])
                lines.append(f"{message.role}: {' '.join(parts)}")
            return "\n".join(lines)

        connection = servers.connection(server)
        text = await connection.request(
            work, connection.server.timeout_s, operation=f"the prompt {name}"
        )
    except ToolError as exc:
        return f"[{exc}]"
    return render_prompt("mcp/prompt", server=server, prompt=name, text=text[:MAX_CHARS])


def _arguments(prompt: McpPrompt, words: str) -> dict[str, str]:
    """Return the arguments in order; the last one takes the rest of the line. Raises
    `ToolError`."""
    names = [name for name, _ in prompt.arguments]
    if len(names) == 1:
        values = [words.strip()] if words.strip() else []
    else:
        try:
            values = shlex.split(words)
        except ValueError:
            values = words.split()
        values = [*values[: len(names) - 1], " ".join(values[len(names) - 1 :])]
    arguments = {name: value for name, value in zip(names, values, strict=False) if value}
    missing = [
        name for name, is_required in prompt.arguments if is_required and name not in arguments
    ]
    if missing:
        usage = " ".join(
            name if is_required else f"[{name}]" for name, is_required in prompt.arguments
        )
        raise ToolError(f"The prompt {prompt.name} needs {missing[0]}: {prompt.name} {usage}")
    return arguments


def _taint(servers: McpServers, server: str) -> frozenset[Taint]:
    return BOTH if servers.connection(server).server.has_private_results else UNTRUSTED
