"""An MCP server of 2025-11-25 over stdio whose tools use the network, as the current user.

`fetch` requests a URL, through a proxy if its variables name one; `talk` sends a text to a host and
port or to the path of a Unix socket and returns the answer; `run` runs a program and returns its
output. A failure is returned as the name of its error. It uses only the standard library.
"""

import json
import os
import socket
import subprocess
import sys
import urllib.request
from typing import Any

_TIMEOUT_S = 20
TOOLS = [
    {"name": name, "description": name, "inputSchema": {"type": "object"}}
    for name in ("fetch", "talk", "run", "addresses")
]


def fetch(url: str) -> str:
    with urllib.request.urlopen(url, timeout=_TIMEOUT_S) as answer:
        text: str = answer.read().decode()
        return text


def talk(text: str, host: str = "", port: int = 0, path: str = "") -> str:
    if path:
        stream = socket.socket(socket.AF_UNIX)
        stream.settimeout(_TIMEOUT_S)
        stream.connect(path)
    else:
        stream = socket.create_connection((host, port), _TIMEOUT_S)
    with stream:
        stream.sendall(text.encode())
        stream.shutdown(socket.SHUT_WR)
        return stream.makefile("rb").read().decode()


def run(argv: list[str]) -> str:
    ran = subprocess.run(argv, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
    return ran.stdout + ran.stderr


def addresses(host: str) -> str:
    return json.dumps(sorted({str(entry[4][0]) for entry in socket.getaddrinfo(host, 80)}))


def answer(method: str, params: dict[str, Any]) -> dict[str, Any]:
    if method == "initialize":
        return {
            "protocolVersion": "2025-11-25",
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "network", "version": "1"},
        }
    if method == "tools/list":
        return {"tools": TOOLS}
    if method != "tools/call":
        return {}
    work = {"fetch": fetch, "talk": talk, "run": run, "addresses": addresses}[params["name"]]
    try:
        text = work(**params.get("arguments", {}))
    except (OSError, ValueError) as exc:
        text = f"{type(exc).__name__}: {exc}"
    return {"content": [{"type": "text", "text": text}]}


def main() -> None:
    os.environ.setdefault("PGCONNECT_TIMEOUT", str(_TIMEOUT_S))
    for line in sys.stdin:
        message = json.loads(line)
        if "id" in message and "method" in message:
            result = answer(message["method"], message.get("params", {}))
            text = {"jsonrpc": "2.0", "id": message["id"], "result": result}
            print(json.dumps(text), flush=True)


if __name__ == "__main__":
    main()
