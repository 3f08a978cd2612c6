"""Minimal client for diagnostics of a language server, as a baseline."""

import json
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

_TSSERVER = "typescript.tsserverRequest"


class BareLanguageServer:
    """Language server without a sandbox.

    `diagnose` waits for the diagnostics of exactly that text.
    """

    def __init__(self, command: Sequence[str], folder: Path, language: str) -> None:
        self._process = subprocess.Popen(
            command,
            cwd=folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        self._language, self._number, self._version = language, 0, 0
        self._registered = False
        self._pushed: dict[str, int] = {}
        diagnostic = {"dynamicRegistration": True}
        document = {"publishDiagnostics": {"versionSupport": True}, "diagnostic": diagnostic}
        root = folder.as_uri()
        result = self.request(
            "initialize",
            processId=None,
            rootUri=root,
            workspaceFolders=[{"uri": root, "name": "p"}],
            capabilities={"textDocument": document, "workspace": {"configuration": True}},
        )
        self._capabilities = result["capabilities"]
        self._send({"method": "initialized", "params": {}})

    def diagnose(self, path: Path, text: str) -> Any:
        """Send the text of a file, and wait for its diagnostics."""
        self._version += 1
        uri = path.as_uri()
        document = {"uri": uri, "version": self._version}
        if self._version == 1:
            item = {**document, "languageId": self._language, "text": text}
            self._send({"method": "textDocument/didOpen", "params": {"textDocument": item}})
        else:
            params = {"textDocument": document, "contentChanges": [{"text": text}]}
            self._send({"method": "textDocument/didChange", "params": params})
        commands = (self._capabilities.get("executeCommandProvider") or {}).get("commands", ())
        if _TSSERVER in commands:
            arguments = ["semanticDiagnosticsSync", {"file": uri}, {"lowPriority": False}]
            return self.request("workspace/executeCommand", command=_TSSERVER, arguments=arguments)
        if self._registered or self._capabilities.get("diagnosticProvider"):
            return self.request("textDocument/diagnostic", textDocument={"uri": uri})

        def is_known(_: object) -> bool:
            # Some servers register for diagnostic requests only after their start.
            return self._registered or self._pushed.get(uri, 0) >= self._version

        message = self._receive(is_known)
        if self._registered:
            return self.request("textDocument/diagnostic", textDocument={"uri": uri})
        return message

    def request(self, method: str, **params: Any) -> Any:
        self._number += 1
        number = self._number
        self._send({"id": number, "method": method, "params": params})
        return self._receive(lambda item: item.get("id") == number and "method" not in item)[
            "result"
        ]

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()

    def _send(self, message: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        self._process.stdin.write(b"Content-Length: %d\r\n\r\n%b" % (len(body), body))
        self._process.stdin.flush()

    def _receive(self, is_it: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """Read until the expected message arrives, and answer the server's requests in the
        meantime.
        """
        assert self._process.stdout is not None
        while True:
            length = 0
            while (line := self._process.stdout.readline()) != b"\r\n":
                if not line:
                    raise EOFError(self._process.args)
                if line.lower().startswith(b"content-length:"):
                    length = int(line.split(b":")[1])
            message: dict[str, Any] = json.loads(self._process.stdout.read(length))
            if (method := message.get("method")) and "id" in message:
                asks = method == "workspace/configuration"
                result = [{} for _ in message["params"]["items"]] if asks else None
                self._send({"id": message["id"], "result": result})
                self._registered |= "textDocument/diagnostic" in json.dumps(message)
            elif method == "textDocument/publishDiagnostics":
                params = message["params"]
                self._pushed[params["uri"]] = params.get("version") or 0
            if is_it(message):
                return message
