"""A language server over stdio that can misbehave: `python lsp_server.py BEHAVIOUR...`.

It uses only the standard library. It reports an error wherever a text contains ERROR, finds symbols
in lines that begin with `def ` or an indented `def `, and defines each word at its first occurrence
in an open document. Words in lines that begin with `#` are comments.
`$/text` returns the server's copy of a document, `$/changes` the file changes that the server
received.

Publishing of errors: with versions (the default), `unversioned`, `pull`, `register` (pull,
registered only after the start), `stale` (first for an older text, with each version in turn),
`changes` (without versions, and only the differences). `late=SECONDS` delays the first publication.
`name=NAME` is the name that the server gives itself. Position encoding: `utf-8`, `utf-16`,
`utf-32`.

`METHOD` is the name of a request, such as `textDocument/hover`. `hang=METHOD` never answers it,
`die=METHOD` exits in the middle of the answer, `slow=SECONDS` delays each answer, `mute` never
answers the initialization, `fail` exits at the start with a message, `once=FILE` misbehaves only
until the file exists, `notes=METHOD` sends endless notifications, `length=METHOD` announces 10 GB,
`garbage=METHOD` sends an invalid message, `deep=METHOD` nests its JSON, `huge=METHOD` answers with
12 MB, `infinity` answers with positions that are not numbers, `asks` sends the client every request
that servers send and returns the answers on hover, `forks` leaves a child process behind,
`stubborn` ignores the end, `says=FILE` answers definitions, hovers, renames and actions with the
content of the file.
"""

import json
import os
import re
import sys
import time
from pathlib import Path
from threading import Lock, Timer
from typing import Any

BEHAVIOURS = dict(argument.partition("=")[::2] for argument in sys.argv[1:])
INPUT, OUTPUT = sys.stdin.buffer, sys.stdout.buffer
TEXTS: dict[str, str] = {}
CHANGES: list[Any] = []
VERSIONS: dict[str, int] = {}
LAST_PUSHED: dict[str, Any] = {}
REPLIES: dict[str, Any] = {}
ENCODING = next((item for item in ("utf-8", "utf-32") if item in BEHAVIOURS), "utf-16")
SENDING = Lock()
WORD = re.compile(r"\w+")


def behaves(name: str, method: str) -> bool:
    """Return whether the server misbehaves in this way for this request."""
    if BEHAVIOURS.get(name) != method:
        return False
    path = Path(BEHAVIOURS.get("once", ""))
    if "once" in BEHAVIOURS and path.exists():
        return False
    if "once" in BEHAVIOURS:
        path.touch()
    return True


def send(message: dict[str, Any]) -> None:
    body = json.dumps({"jsonrpc": "2.0", **message}).encode()
    with SENDING:
        OUTPUT.write(b"Content-Length: %d\r\n\r\n%b" % (len(body), body))
        OUTPUT.flush()


def receive() -> dict[str, Any] | None:
    length = 0
    while line := INPUT.readline():
        if line == b"\r\n":
            message: dict[str, Any] = json.loads(INPUT.read(length))
            return message
        if line.lower().startswith(b"content-length:"):
            length = int(line.partition(b":")[2])
    return None


def units(text: str) -> int:
    if ENCODING == "utf-32":
        return len(text)
    return len(text.encode(ENCODING + "-le" if ENCODING == "utf-16" else ENCODING)) // (
        2 if ENCODING == "utf-16" else 1
    )


def characters(line: str, count: int) -> int:
    return next((n for n in range(len(line) + 1) if units(line[:n]) >= count), len(line))


def span(number: int, line: str, start: int, end: int) -> dict[str, Any]:
    return {
        "start": {"line": number, "character": units(line[:start])},
        "end": {"line": number, "character": units(line[:end])},
    }


def errors(uri: str) -> list[dict[str, Any]]:
    return [
        {
            "range": span(number, line, match.start(), match.end()),
            "severity": 1,
            "code": "E1",
            "message": f"an error: {line.strip()}",
        }
        for number, line in enumerate(TEXTS.get(uri, "").split("\n"))
        for match in re.finditer("ERROR", line)
    ]


def publish(uri: str, version: int | None, diagnostics: list[Any]) -> None:
    if (delay := BEHAVIOURS.pop("late", None)) is not None:
        work = Timer(float(delay), send_diagnostics, (uri, version, diagnostics))
        work.daemon = True
        work.start()
    else:
        send_diagnostics(uri, version, diagnostics)


def send_diagnostics(uri: str, version: int | None, diagnostics: list[Any]) -> None:
    params = {"uri": uri, "diagnostics": diagnostics}
    numbered = params if version is None else {**params, "version": version}
    send({"method": "textDocument/publishDiagnostics", "params": numbered})


def push(uri: str, before: list[Any]) -> None:
    """Publish the diagnostics of a document in the configured way."""
    if {"pull", "register"} & BEHAVIOURS.keys():
        return
    if "unversioned" in BEHAVIOURS:
        publish(uri, None, errors(uri))
    elif "changes" in BEHAVIOURS:
        if LAST_PUSHED.get(uri, []) != errors(uri):
            publish(uri, None, errors(uri))
        LAST_PUSHED[uri] = errors(uri)
    elif "stale" in BEHAVIOURS:
        for version in range(max(0, VERSIONS[uri] - 2), VERSIONS[uri]):
            publish(uri, version, before)
        publish(uri, VERSIONS[uri], errors(uri))
    else:
        publish(uri, VERSIONS[uri], errors(uri))


def word_at(params: dict[str, Any]) -> str:
    lines = TEXTS[params["textDocument"]["uri"]].split("\n")
    line = lines[params["position"]["line"]]
    at = characters(line, params["position"]["character"])
    if line.startswith("#"):
        return ""
    return next((m[0] for m in WORD.finditer(line) if m.start() <= at <= m.end()), "")


def places(word: str) -> list[dict[str, Any]]:
    if "infinity" in BEHAVIOURS:
        end = {"line": float("inf"), "character": float("nan")}
        return [{"uri": next(iter(TEXTS)), "range": {"start": end, "end": end}}]
    return [
        {"uri": uri, "range": span(number, line, match.start(), match.end())}
        for uri, text in TEXTS.items()
        for number, line in enumerate(text.split("\n"))
        for match in WORD.finditer(line)
        if match[0] == word
    ]


def whole(uri: str, text: str) -> dict[str, Any]:
    start = {"line": 0, "character": 0}
    end = {"line": 10**6, "character": 0}
    return {"range": {"start": start, "end": end}, "newText": text}


def answer(method: str, params: Any) -> Any:
    match method:
        case "initialize":
            info = {"serverInfo": {"name": BEHAVIOURS["name"]}} if "name" in BEHAVIOURS else {}
            return {"capabilities": capabilities(), **info}
        case "$/changes":
            return CHANGES
        case "$/text":
            return TEXTS.get(params["uri"])
        case (
            "textDocument/definition"
            | "textDocument/hover"
            | "textDocument/rename"
            | "textDocument/codeAction"
        ) if "says" in BEHAVIOURS:
            return json.loads(Path(BEHAVIOURS["says"]).read_text(encoding="utf-8"))
        case "textDocument/definition":
            return places(word_at(params))[:1]
        case "textDocument/references":
            return places(word_at(params))
        case "textDocument/hover":
            if not (word := word_at(params)):
                return None
            words = json.dumps(REPLIES) if "asks" in BEHAVIOURS else f"word {word}"
            return {"contents": {"kind": "plaintext", "value": words}}
        case "textDocument/documentSymbol":
            lines = TEXTS[params["textDocument"]["uri"]].split("\n")
            return [
                {
                    "name": line[4:],
                    "kind": 12,
                    "range": span(number, line, 0, len(line)),
                    "selectionRange": span(number, line, 4, len(line)),
                }
                for number, line in enumerate(lines)
                if line.startswith("def ")
            ]
        case "textDocument/diagnostic":
            return {"kind": "full", "items": errors(params["textDocument"]["uri"])}
        case "textDocument/rename":
            changes: dict[str, list[Any]] = {}
            for place in places(word_at(params)):
                edit = {"range": place["range"], "newText": params["newName"]}
                changes.setdefault(place["uri"], []).append(edit)
            return {"changes": changes}
        case "textDocument/formatting":
            uri = params["textDocument"]["uri"]
            return [whole(uri, TEXTS[uri].strip() + "\n")]
    return None


def capabilities() -> dict[str, Any]:
    offers = (
        *(
            "definition",
            "references",
            "hover",
            "documentSymbol",
            "rename",
            "codeAction",
            "documentFormatting",
        ),
    )
    offered: dict[str, Any] = {f"{name}Provider": True for name in offers}
    if "pull" in BEHAVIOURS:
        offered["diagnosticProvider"] = {"interFileDependencies": False}
    return {**offered, "textDocumentSync": 1, "positionEncoding": ENCODING}


def misbehave(method: str, number: Any) -> bool:
    """Misbehave as configured; return whether the request gets no answer."""
    if behaves("hang", method) or (method == "initialize" and "mute" in BEHAVIOURS):
        return True
    if behaves("die", method):
        OUTPUT.write(b'Content-Length: 500\r\n\r\n{"jsonrpc": "2.0", "id":')
        OUTPUT.flush()
        os._exit(3)
    if behaves("notes", method):
        while True:
            send({"method": "window/logMessage", "params": {"type": 3, "message": "x" * 1000}})
    if behaves("length", method):
        OUTPUT.write(b"Content-Length: 10000000000\r\n\r\n")
        OUTPUT.flush()
        return True
    if behaves("garbage", method):
        OUTPUT.write(os.urandom(100_000))
        OUTPUT.flush()
        return True
    if behaves("deep", method):
        body = b"[" * 1_000_000
        OUTPUT.write(b"Content-Length: %d\r\n\r\n%b" % (len(body), body))
        OUTPUT.flush()
        return True
    if behaves("huge", method):
        send({"id": number, "result": {"contents": "\u202e" + "x" * 12_000_000}})
        return True
    return False


def ask_client() -> None:
    """Send every request that servers send, and record the answers."""
    register = {"id": "1", "method": "textDocument/completion"}
    requests: dict[str, Any] = {
        "workspace/configuration": {"items": [{"section": "a.b"}, {"section": "none"}, {}]},
        "client/registerCapability": {"registrations": [register]},
        "workspace/applyEdit": {"edit": {"changes": {}}},
        "window/showMessageRequest": {"type": 1, "message": "Well?", "actions": [{"title": "y"}]},
        "window/showDocument": {"uri": "http://127.0.0.1:9/", "external": True},
        "workspace/workspaceFolders": None,
        "workspace/unheard": {},
        "window/workDoneProgress/create": {"token": 1},
        "client/unregisterCapability": {"unregisterations": "no list"},
    }
    for method, params in requests.items():
        send({"id": f"ask {method}", "method": method, "params": params})


def hear(method: str, params: Any) -> None:
    """Handle a notification of the client."""
    if method == "initialized":
        if "register" in BEHAVIOURS:
            registration = {"id": "d", "method": "textDocument/diagnostic"}
            send(
                {
                    "id": "ask d",
                    "method": "client/registerCapability",
                    "params": {"registrations": [registration]},
                }
            )
        if "asks" in BEHAVIOURS:
            ask_client()
    if method == "exit" and "stubborn" not in BEHAVIOURS:
        sys.exit(0)
    if method == "workspace/didChangeWatchedFiles":
        CHANGES.extend(params["changes"])
    if not method.startswith("textDocument/did"):
        return
    document = params["textDocument"]
    uri, before = document["uri"], errors(document["uri"])
    match method:
        case "textDocument/didOpen":
            assert uri not in TEXTS, "opened twice"
            TEXTS[uri], VERSIONS[uri] = document["text"], document["version"]
            push(uri, before)
        case "textDocument/didChange":
            assert document["version"] > VERSIONS[uri], "a number that does not grow"
            (change,) = params["contentChanges"]
            TEXTS[uri], VERSIONS[uri] = change["text"], document["version"]
            push(uri, before)
        case "textDocument/didClose":
            del TEXTS[uri]


def main() -> None:
    if "fail" in BEHAVIOURS:
        sys.exit("I cannot go on.")
    if "forks" in BEHAVIOURS and os.fork() == 0:
        os.setsid()
        while True:
            time.sleep(1)
    while (message := receive()) is not None or "stubborn" in BEHAVIOURS:
        if message is None:
            time.sleep(1)
            continue
        method, number = message.get("method"), message.get("id")
        if method is None:
            REPLIES[str(number)] = message.get("result", message.get("error"))
        elif number is None:
            hear(method, message.get("params"))
        elif not misbehave(method, number):
            time.sleep(float(BEHAVIOURS.get("slow", 0)))
            send({"id": number, "result": answer(method, message.get("params"))})


if __name__ == "__main__":
    main()
