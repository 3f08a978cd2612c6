"""Language server over stdio that finds the first line of a word, in the standard library."""

import json
import sys
from typing import Any

TEXTS: dict[str, str] = {}


def read() -> dict[str, Any] | None:
    length = 0
    while (header := sys.stdin.buffer.readline().strip()) != b"":
        name, _, value = header.partition(b":")
        if name.lower() == b"content-length":
            length = int(value)
    return dict(json.loads(sys.stdin.buffer.read(length))) if length else None


def send(message: dict[str, Any]) -> None:
    data = json.dumps({"jsonrpc": "2.0", **message}).encode()
    sys.stdout.buffer.write(b"Content-Length: %d\r\n\r\n%s" % (len(data), data))
    sys.stdout.buffer.flush()


def definition(uri: str, line: int, character: int) -> list[dict[str, Any]]:
    lines = TEXTS[uri].splitlines()
    words = lines[line][:character].split(" ")
    word = words[-1] + lines[line][character:].split(" ")[0]
    first = next(number for number, text in enumerate(lines) if word in text.split())
    start = {"line": first, "character": lines[first].index(word)}
    return [{"uri": uri, "range": {"start": start, "end": start}}]


while (message := read()) is not None:
    method, params = message.get("method"), message.get("params") or {}
    result: Any = None
    match method:
        case "initialize":
            result = {"capabilities": {"textDocumentSync": 1, "definitionProvider": True}}
        case "textDocument/didOpen":
            document = params["textDocument"]
            TEXTS[document["uri"]] = document["text"]
        case "textDocument/didChange":
            TEXTS[params["textDocument"]["uri"]] = params["contentChanges"][0]["text"]
        case "textDocument/definition":
            place = params["position"]
            result = definition(params["textDocument"]["uri"], place["line"], place["character"])
        case "exit":
            break
    if "id" in message and method is not None:
        send({"id": message["id"], "result": result})
