"""Diagnostics requested from typescript-language-server.

The server does not publish diagnostics that are unchanged, so waiting for them would cost seconds
with each edit that changes nothing.

https://github.com/typescript-language-server/typescript-language-server#send-tsserver-command
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agent.code.lsp.protocol.peer import JsonRpcPeer
from agent.code.lsp.protocol.positions import uri_of

_COMMAND = "typescript.tsserverRequest"
_QUESTIONS = ("syntacticDiagnosticsSync", "semanticDiagnosticsSync")
_SEVERITIES = {"error": 1, "warning": 2, "message": 3, "suggestion": 4}


def has_tsserver(capabilities: Mapping[str, Any]) -> bool:
    """Return whether the server forwards commands to TypeScript's own server."""
    provider = capabilities.get("executeCommandProvider")
    commands = provider.get("commands") if isinstance(provider, dict) else None
    return isinstance(commands, list) and _COMMAND in commands


async def ask_tsserver(peer: JsonRpcPeer, path: Path, timeout_s: float) -> list[Any] | None:
    """Return the diagnostics of an open document in protocol form; None for an unexpected answer.

    Raises as `JsonRpcPeer.request` does.
    """
    items: list[Any] = []
    arguments = {"file": uri_of(path), "includeLinePosition": True}
    for question in _QUESTIONS:
        params = {"command": _COMMAND, "arguments": [question, arguments, {"lowPriority": False}]}
        answer = await peer.request("workspace/executeCommand", params, timeout_s)
        body = answer.get("body") if isinstance(answer, dict) else None
        if not isinstance(body, list):
            return None
        items += [_diagnostic(item) for item in body if isinstance(item, dict)]
    return items


def _diagnostic(item: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "range": {
            "start": _position(item.get("startLocation")),
            "end": _position(item.get("endLocation")),
        },
        "severity": _SEVERITIES.get(str(item.get("category")), 1),
        "message": item.get("message"),
        "code": item.get("code"),
        "source": "typescript",
    }


def _position(place: Any) -> Any:
    """Convert a position; TypeScript counts from 1."""
    try:
        return {"line": place["line"] - 1, "character": place["offset"] - 1}
    except (KeyError, TypeError):
        return None
