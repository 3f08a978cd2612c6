"""MCP server with one tool over stdio, in the standard library."""

import json
import os
import sys
from typing import Any

TOOL = {
    "name": "balance",
    "description": "Return the balance of an account.",
    "inputSchema": {
        "type": "object",
        "properties": {"account": {"type": "string"}},
        "required": ["account"],
    },
}


def answer(method: str, params: dict[str, Any]) -> dict[str, Any]:
    if method == "initialize":
        return {
            "protocolVersion": params["protocolVersion"],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "ledger", "version": "1"},
        }
    if method == "tools/list":
        return {"tools": [TOOL]}
    if method == "tools/call":
        text = f"{params['arguments']['account']}: 4,711 {os.environ['LEDGER_CURRENCY']}"
        return {"content": [{"type": "text", "text": text}]}
    return {}


for line in sys.stdin:
    request = json.loads(line)
    if "id" in request:
        result = answer(request["method"], request.get("params") or {})
        reply = {"jsonrpc": "2.0", "id": request["id"], "result": result}
        print(json.dumps(reply), flush=True)
