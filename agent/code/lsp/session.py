"""A server that has been started and has said what it can: its documents, and questions to it."""

import asyncio
import itertools
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agent.code.lsp.diagnostics import Diagnostic, read_diagnostics
from agent.code.lsp.protocol.peer import JsonRpcPeer, PeerClosed, ResponseError, UnknownMethod
from agent.code.lsp.protocol.positions import ENCODINGS, Encoding
from agent.code.lsp.protocol.uris import path_of, uri_of
from agent.code.lsp.tsserver import ask_tsserver, has_tsserver
from agent.tools.file_views import Stamp

# A server that says no version with what it finds has finished when it was quiet for so long; one
# that says nothing at all had nothing new to say after this.
QUIET_S = 0.4
SILENT_S = 2.0
# The first look at a project takes servers longer: they say nothing until they have read it. But
# a check before a write must not run out of time with it.
FIRST_SILENT_S = 4.0
TERSE_SILENT_S = 1.0
# So long in all is waited for a server that reads the project before its answers are whole.
LOAD_S = 15.0
_MOST_TASKS = 100
# Servers that read from the disk what one document includes of another.
_READ_THE_DISK = frozenset({"clangd"})
# Servers that say nothing of a document in which they find what they found before, though it, or
# another that it uses, has changed.
_TERSE = frozenset({"gopls", "rust-analyzer"})
# How long one may take to say that it answers questions for diagnostics.
_REGISTER_S = 1.0
# Of a project, so many documents stay open in a server.
MOST_DOCUMENTS = 50
_SERVER_CANCELLED = -32802
_CONTENT_MODIFIED = -32801
_RETRIES = 3
_PULL = "textDocument/diagnostic"
_SYMBOLS = "textDocument/documentSymbol"


@dataclass(slots=True)
class OpenDocument:
    """A file as the server was told it: `text`, under a number that grows with each change.

    `pushed` is what it said of it by itself, with the number it named (None: none), and when.
    `changed_at` is when it was told last, `known_at` when it had read that for certain. `stamp` is
    the file that it was read from; None for a draft. `is_doubtful`: files that it
    may include have changed on the disk. `raw_diagnostics` is what was found in it last.
    """

    text: str
    language: str
    version: int
    pushed: list[Any] | None = None
    pushed_version: int | None = None
    pushed_at: float = 0.0
    changed_at: float = field(default_factory=time.monotonic)
    known_at: float | None = None
    stamp: Stamp | None = None
    is_doubtful: bool = False
    raw_diagnostics: list[Any] = field(default_factory=list)


class LspSession:
    """`settings` answer what the server asks of its configuration. Belongs to one event loop."""

    def __init__(self, folder: Path, settings: Mapping[str, Any]) -> None:
        self.folder = folder
        self.peer = JsonRpcPeer(self._on_request, self._on_notification)
        self.encoding: Encoding = "utf-16"
        self.capabilities: Mapping[str, Any] = {}
        self.documents: dict[Path, OpenDocument] = {}
        # Whether a document that is not written yet is there for the others.
        self.sees_drafts = True
        self._settings = settings
        self._registered: dict[str, str] = {}
        # Something came that may be what somebody waits for.
        self._news = asyncio.Event()
        # A document that is closed and opened again has higher numbers than before: what is still
        # said of its earlier texts is not taken for news.
        self._versions = itertools.count(1)
        # Documents that the server was told more than one text of.
        self._changed_paths: set[Path] = set()
        self._has_pushed = False
        # Whether it says of which text it speaks.
        self._numbers_pushes = False
        self._is_terse = False
        # When it was told of a change last, of which document (None: of files), and when it had
        # read that for certain; when it pushed last.
        self._told_at = 0.0
        self._told_path: Path | None = None
        self._pushed_at = 0.0
        self._known_at: float | None = None
        self._ready_at = 0.0
        # What it does of its own accord, such as to read the project.
        self._tasks: set[str] = set()
        self._load_left_s = LOAD_S
        self._has_read_project = False
        self.has_said_goodbye = False

    async def initialize(self, options: Mapping[str, Any], timeout_s: float) -> None:
        """Say who we are, and hear what it can. Raises as `JsonRpcPeer.request` does."""
        from agent.code.lsp.protocol.capabilities import initialize_params

        params = initialize_params(self.folder, options)
        result = await self.peer.request("initialize", params, timeout_s)
        capabilities = result.get("capabilities") if isinstance(result, dict) else None
        self.capabilities = capabilities if isinstance(capabilities, dict) else {}
        info = result.get("serverInfo") if isinstance(result, dict) else None
        name = info.get("name") if isinstance(info, dict) else None
        self.sees_drafts = name not in _READ_THE_DISK
        self._is_terse = name in _TERSE
        name = self.capabilities.get("positionEncoding")
        self.encoding = next((one for one in ENCODINGS if one == name), "utf-16")
        self.peer.notify("initialized", {})
        if self._settings:
            params = {"settings": self._settings}
            self.peer.notify("workspace/didChangeConfiguration", params)
        self._ready_at = time.monotonic()

    @property
    def answers_questions(self) -> bool:
        """Whether it is to be asked for diagnostics, as far as it has said so."""
        return self.offers("diagnosticProvider", _PULL)

    def close(self) -> None:
        """The server has ended: those who wait for it learn that."""
        self.peer.close()
        self._news.set()

    def offers(self, capability: str, method: str) -> bool:
        """Whether it answers this, as it said at its start or later."""
        value = self.capabilities.get(capability)
        return (value is not None and value is not False) or self.has_registered(method)

    def has_registered(self, method: str) -> bool:
        return method in self._registered.values()

    async def read_project(self, path: Path) -> None:
        """Before the first question about all files: pyright answers of those that it has found
        so far, and does not say so. What it finds in an open file it tells when it has them."""
        if not self._has_read_project:
            await self.diagnose(path, LOAD_S)
            await self.finish_loading()
            self._has_read_project = True

    async def finish_loading(self) -> bool:
        """Wait for what the server does of its own accord; whether there was anything to wait
        for. What it answers meanwhile lacks the files that it has not read."""
        if not self._tasks:
            return False
        until = time.monotonic() + self._load_left_s
        while self._tasks and (left_s := until - time.monotonic()) > 0:
            await self._next_news(left_s)
        self._load_left_s = max(0.0, until - time.monotonic())
        return True

    def open(self, path: Path, text: str, language: str) -> OpenDocument:
        """Let the server know the file with this text, whatever is on the disk."""
        document = self.documents.get(path)
        if document is None:
            self._make_room()
            document = OpenDocument(text, language, next(self._versions))
            self.documents[path] = document
            self._note_telling(path)
            item = {
                "uri": uri_of(path),
                "languageId": language,
                "version": document.version,
                "text": text,
            }
            self.peer.notify("textDocument/didOpen", {"textDocument": item})
            return document
        # The newest last: what is not used is closed first.
        self.documents[path] = self.documents.pop(path)
        document.stamp = None
        if document.text != text:
            document.text, document.version = text, next(self._versions)
            self._changed_paths.add(path)
            document.changed_at, document.known_at = time.monotonic(), None
            document.is_doubtful = False
            self._note_telling(path)
            self.peer.notify(
                "textDocument/didChange",
                {
                    "textDocument": {"uri": uri_of(path), "version": document.version},
                    "contentChanges": [{"text": text}],
                },
            )
        return document

    def _reopen(self, path: Path) -> OpenDocument:
        document = self.documents[path]
        self.close_document(path)
        fresh = self.open(path, document.text, document.language)
        fresh.stamp = document.stamp
        return fresh

    def close_document(self, path: Path) -> None:
        """From here on the disk has the word again."""
        if self.documents.pop(path, None) is not None:
            self._changed_paths.add(path)
            self._note_telling(None)
            self.peer.notify("textDocument/didClose", {"textDocument": {"uri": uri_of(path)}})

    def save(self, path: Path) -> None:
        """The disk holds what the server was told."""
        if path in self.documents:
            self.peer.notify("textDocument/didSave", {"textDocument": {"uri": uri_of(path)}})

    def files_changed(self, changes: Iterable[tuple[Path, int]]) -> None:
        """Files that were created (1), changed (2) or deleted (3) on the disk."""
        kinds = dict(changes)
        events = [{"uri": uri_of(path), "type": kind} for path, kind in kinds.items()]
        if events:
            self.peer.notify("workspace/didChangeWatchedFiles", {"changes": events})
            # Of an open document it knows what it was told, whatever is on the disk.
            if kinds.keys() - self.documents.keys():
                self._note_telling(None)
            for document in self.documents.values():
                document.is_doubtful = True

    def _note_telling(self, path: Path | None) -> None:
        self._told_at, self._told_path, self._known_at = time.monotonic(), path, None

    def _make_room(self) -> None:
        while len(self.documents) >= MOST_DOCUMENTS:
            self.close_document(next(iter(self.documents)))

    async def diagnose(self, path: Path, timeout_s: float) -> tuple[Diagnostic, ...] | None:
        """What the server finds in an open document as it was told last; None when it did not say
        in time. Raises `PeerClosed`."""
        document = self.documents[path]
        if document.is_doubtful and self._numbers_pushes and not self._is_terse:
            # Some look at a text that stays the same only when it is opened.
            document = self._reopen(path)
        version = document.version
        try:
            async with asyncio.timeout(timeout_s):
                if has_tsserver(self.capabilities):
                    items = await ask_tsserver(self.peer, path, timeout_s)
                elif await self._answers_questions():
                    items = await self._ask(path, timeout_s)
                elif self._is_terse:
                    items = await self._wait_for_terse(path, timeout_s)
                else:
                    items = await self._wait_for_push(path, timeout_s)
        except TimeoutError:
            return None
        if document.version != version:
            # It has changed since: this is said of another text.
            return None
        if not isinstance(items, list):
            return None
        document.raw_diagnostics = items
        return read_diagnostics(items, document.text, self.encoding)

    async def _answers_questions(self) -> bool:
        """Whether it is to be asked for diagnostics: some say so only when they have started."""
        if self.offers("diagnosticProvider", _PULL):
            return True
        until = self._ready_at + _REGISTER_S
        while not self._has_pushed and (left_s := until - time.monotonic()) > 0:
            await self._next_news(left_s)
            if self.has_registered(_PULL):
                return True
        return False

    async def _ask(self, path: Path, timeout_s: float) -> Any:
        params = {"textDocument": {"uri": uri_of(path)}}
        for _ in range(_RETRIES):
            try:
                report = await self.peer.request(_PULL, params, timeout_s)
            except ResponseError as exc:
                if exc.error_code not in (_SERVER_CANCELLED, _CONTENT_MODIFIED):
                    raise
                continue
            return report.get("items") if isinstance(report, dict) else None
        raise TimeoutError

    async def _wait_for_push(self, path: Path, timeout_s: float) -> Any:
        """What it says of the text that it was told last, and of no other."""
        document = self.documents[path]
        while True:
            if self._numbers_pushes:
                if (document.pushed_version or 0) >= document.version:
                    return document.pushed
                left_s = timeout_s
            elif document.known_at is None:
                await self._be_known(path, timeout_s)
                continue
            else:
                known_at = document.known_at
                if document.pushed_at > known_at:
                    left_s = document.pushed_at + QUIET_S - time.monotonic()
                else:
                    # It says nothing when it finds what it found before.
                    silent_s = SILENT_S if self._has_pushed else FIRST_SILENT_S
                    left_s = known_at + silent_s - time.monotonic()
                if left_s <= 0:
                    return document.pushed
            await self._next_news(left_s)

    async def _wait_for_terse(self, path: Path, timeout_s: float) -> Any:
        """What a terse server says of a text. It speaks of the one that it was told last, and of
        others only where they change: those are as it said when it has read all, and is quiet."""
        document = self.documents[path]
        while True:
            if self._told_path == path and self._is_said_of(path):
                return document.pushed
            if self._known_at is None:
                await self._be_known(path, timeout_s, ask=True)
                continue
            quiet_at = max(self._known_at, self._pushed_at) + QUIET_S
            if self._told_path is None or not self._is_said_of(self._told_path):
                quiet_at = max(quiet_at, self._told_at + TERSE_SILENT_S)
            left_s = quiet_at - time.monotonic()
            if left_s <= 0 and not self._tasks:
                # One that has never said anything may not have understood the project.
                return (document.pushed or []) if self._has_pushed else None
            await self._next_news(left_s if left_s > 0 else timeout_s)

    def _is_said_of(self, path: Path) -> bool:
        """Whether what it pushed for a document is said of the text that it was told last."""
        document = self.documents.get(path)
        return document is not None and (document.pushed_version or 0) >= document.version

    async def _be_known(self, path: Path, timeout_s: float, ask: bool = False) -> None:
        """Wait until the server has read a document: messages are read in their order, so that
        what it says after an answer is not said of an older text."""
        document = self.documents[path]
        version, told_at = document.version, self._told_at
        if path not in self._changed_paths and not ask:
            # There is only one text that it can speak of.
            document.known_at = document.changed_at
            return
        if self.offers("documentSymbolProvider", _SYMBOLS):
            params = {"textDocument": {"uri": uri_of(path)}}
            with suppress(ResponseError):
                await self.peer.request(_SYMBOLS, params, timeout_s)
        if document.version == version:
            document.known_at = time.monotonic()
        if self._told_at == told_at:
            self._known_at = time.monotonic()

    async def _next_news(self, timeout_s: float) -> None:
        self._news.clear()
        if self.peer.is_closed:
            raise PeerClosed("It has ended.")
        try:
            async with asyncio.timeout(timeout_s):
                await self._news.wait()
        except TimeoutError:
            return

    def _on_notification(self, method: str, params: Any) -> None:
        if not isinstance(params, dict):
            return
        if method == "$/progress":
            self._note_progress(params)
        if method == "textDocument/publishDiagnostics":
            self._note_diagnostics(params)

    def _note_progress(self, params: Mapping[str, Any]) -> None:
        value = params.get("value")
        kind = value.get("kind") if isinstance(value, dict) else None
        token = str(params.get("token"))
        if kind == "begin" and len(self._tasks) < _MOST_TASKS:
            self._tasks.add(token)
        elif kind == "end":
            self._tasks.discard(token)
        self._news.set()

    def _note_diagnostics(self, params: Mapping[str, Any]) -> None:
        path = path_of(params.get("uri"))
        document = self.documents.get(path) if path is not None else None
        version = params.get("version")
        if document is not None and isinstance(params.get("diagnostics"), list):
            self._has_pushed = True
            if isinstance(version, int):
                self._numbers_pushes = True
            elif self._numbers_pushes:
                # It forgets one that was closed.
                return
            document.pushed = params["diagnostics"]
            document.pushed_version = version if isinstance(version, int) else None
            document.pushed_at = self._pushed_at = time.monotonic()
        self._news.set()

    def _on_request(self, method: str, params: Any) -> Any:
        match method:
            case "workspace/configuration":
                return [self._setting(item.get("section")) for item in params["items"][:1000]]
            case "workspace/workspaceFolders":
                return [{"uri": uri_of(self.folder), "name": self.folder.name}]
            case "client/registerCapability":
                for one in params["registrations"][:1000]:
                    self._registered[str(one["id"])] = str(one["method"])
                self._news.set()
                return None
            case "client/unregisterCapability":
                for one in params["unregisterations"][:1000]:
                    self._registered.pop(str(one["id"]), None)
                return None
            case "workspace/applyEdit":
                # Files are changed by calls of tools alone, which policy and persons judge.
                return {"applied": False, "failureReason": "Kore applies no edits by itself."}
            case "window/workDoneProgress/create" | "window/showMessageRequest":
                return None
            case method if method.endswith("/refresh"):
                return None
        raise UnknownMethod(method)

    def _setting(self, section: Any) -> Any:
        """A part of the settings by its dotted name, as `python.analysis`."""
        value: Any = self._settings
        for part in str(section).split(".") if section else ():
            value = value.get(part) if isinstance(value, dict) else None
        return value if value is not None else {}
