"""Strict checks of Agent Client Protocol lines against the models of its schema.

Unknown fields and wrong types are errors. If the npm package `@agentclientprotocol/sdk` is
installed next to a command on PATH, the JSON Schema that it publishes checks each line as well.
"""

import json
import os
from functools import cache
from pathlib import Path
from typing import Any

import pytest

acp = pytest.importorskip("acp", reason="agent-client-protocol is not installed (extra acp)")
schema = pytest.importorskip("acp.schema")

_ANSWERS: dict[str, Any] = {
    "initialize": schema.InitializeResponse,
    "authenticate": schema.AuthenticateResponse,
    "session/new": schema.NewSessionResponse,
    "session/load": schema.LoadSessionResponse,
    "session/list": schema.ListSessionsResponse,
    "session/close": schema.CloseSessionResponse,
    "session/set_mode": schema.SetSessionModeResponse,
    "session/set_config_option": schema.SetSessionConfigOptionResponse,
    "session/prompt": schema.PromptResponse,
}
_REQUESTS: dict[str, Any] = {
    "session/update": schema.SessionNotification,
    "session/request_permission": schema.RequestPermissionRequest,
    "fs/read_text_file": schema.ReadTextFileRequest,
    "fs/write_text_file": schema.WriteTextFileRequest,
    "terminal/create": schema.CreateTerminalRequest,
    "terminal/output": schema.TerminalOutputRequest,
    "terminal/release": schema.ReleaseTerminalRequest,
    "terminal/wait_for_exit": schema.WaitForTerminalExitRequest,
    "terminal/kill": schema.KillTerminalRequest,
    "elicitation/complete": schema.CompleteElicitationNotification,
    "$/cancel_request": schema.CancelRequestNotification,
}
_ELICITATIONS: dict[Any, Any] = {
    "form": schema.CreateFormSessionElicitationRequest,
    "url": schema.CreateUrlSessionElicitationRequest,
}
# The published schema has a single definition where the library has one per mode.
_PUBLISHED_NAMES = {
    "CreateFormSessionElicitationRequest": "CreateElicitationRequest",
    "CreateUrlSessionElicitationRequest": "CreateElicitationRequest",
}
_NOTIFICATIONS = {"session/update", "elicitation/complete", "$/cancel_request"}


class LineCheck:
    """The `lines` of an agent, checked at the end, when all requests are known."""

    def __init__(self) -> None:
        self.lines: list[bytes] = []
        self.methods: list[str] = []
        self._methods_by_id: dict[Any, str] = {}

    def note_event(self, event: Any) -> None:
        """Record a line of the client; a request determines the type of its response."""
        if event.direction == "outgoing":
            self.note_request(event.message)

    def note_request(self, message: dict[str, Any]) -> None:
        if "method" in message and "id" in message:
            self._methods_by_id[message["id"]] = message["method"]

    def faults(self) -> list[str]:
        """Return a sentence about each invalid line."""
        faults = []
        for line in self.lines:
            try:
                self._check(json.loads(line))
            except (ValueError, KeyError, TypeError) as exc:
                faults.append(f"{line[:600]!r}: {exc!r}")
        return faults

    def _check(self, message: dict[str, Any]) -> None:
        if message.get("jsonrpc") != "2.0":
            raise ValueError("not JSON-RPC 2.0")
        if "method" in message:
            self._check_request(message)
        elif "error" in message:
            _expect_keys(message, {"jsonrpc", "id", "error"})
            _check_value(schema.Error, message["error"])
        else:
            _expect_keys(message, {"jsonrpc", "id", "result"})
            _check_value(_ANSWERS[self._methods_by_id.pop(message["id"])], message["result"])

    def _check_request(self, message: dict[str, Any]) -> None:
        method, params = message["method"], message["params"]
        self.methods.append(method)
        keys = {"jsonrpc", "method", "params"}
        _expect_keys(message, keys if method in _NOTIFICATIONS else {*keys, "id"})
        if method == "elicitation/create":
            _check_value(_ELICITATIONS[params["mode"]], params)
        else:
            _check_value(_REQUESTS[method], params)


def _expect_keys(message: dict[str, Any], keys: set[str]) -> None:
    if set(message) != keys:
        raise ValueError(f"expected the keys {sorted(keys)}, found {sorted(message)}")


def _check_value(model: Any, value: Any) -> None:
    # The models repair values and drop unknown fields, so their output differs from the input.
    read = model.model_validate_json(json.dumps(value), strict=True)
    again = read.model_dump(mode="json", by_alias=True, exclude_unset=True)
    if again != value:
        raise ValueError(f"{model.__name__} reads {again}")
    if published_schema() is not None:
        check_published(_PUBLISHED_NAMES.get(model.__name__, model.__name__), value)


def check_published(name: str, value: Any) -> None:
    """Raise `ValueError` for a value that violates the published schema."""
    if (fault := next(_validator_of(name).iter_errors(value), None)) is not None:
        raise ValueError(f"{name} of the published schema: {fault.message}")


@cache
def published_schema() -> Path | None:
    """Return the path of the schema for version 1 of the protocol, if it is installed."""
    for folder in map(Path, os.environ.get("PATH", "").split(os.pathsep)):
        package = folder.parent / "@agentclientprotocol" / "sdk" / "schema"
        for file in (package / "v1" / "schema.json", package / "schema.json"):
            if folder.name == ".bin" and file.is_file():
                return file
    return None


@cache
def _validator_of(name: str) -> Any:
    from jsonschema import Draft202012Validator

    file = published_schema()
    assert file is not None
    definitions = json.loads(file.read_text())["$defs"]
    if name not in definitions:
        raise ValueError(f"the published schema has no {name}")
    return Draft202012Validator({"$ref": f"#/$defs/{name}", "$defs": definitions})
