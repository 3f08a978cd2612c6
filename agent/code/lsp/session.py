"""Session with a started language server: capabilities, documents and diagnostics."""

import asyncio
import itertools
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agent.code.lsp.diagnostics import Diagnostic, read_diagnostics
from agent.code.lsp.protocol.capabilities import initialize_params
from agent.code.lsp.protocol.peer import JsonRpcPeer, PeerClosed, ResponseError, UnknownMethod
from agent.code.lsp.protocol.positions import ENCODINGS, Encoding, path_of, uri_of
from agent.code.lsp.tsserver import ask_tsserver, has_tsserver
from agent.tools.file_views import Stamp

# A server that sends no version with its diagnostics is done once it is quiet for
# `QUIET_INTERVAL_S`; a silent server has nothing new after `SILENCE_TIMEOUT_S`.
QUIET_INTERVAL_S = 0.4
SILENCE_TIMEOUT_S = 2.0
# Servers are silent longer during the first check, until they have read the project, but a check
# before a write must not run out of time.
FIRST_SILENCE_TIMEOUT_S = 4.0
SHORT_SILENCE_TIMEOUT_S = 1.0
# Total wait for a server that reads the project before its answers are complete.
LOAD_TIMEOUT_S = 15.0
# Wait of a terse server's first diagnostics, counted from its start.
FIRST_WORD_TIMEOUT_S = 20.0
# A server that takes long to answer, as on a busy machine, may be silent for longer.
_SILENCE_FACTOR = 3
_FIRST_SILENCE_FACTOR = 6
_MAX_TASKS = 100
# Servers that read included files from the disk, not from open documents.
_READS_DISK = frozenset({"clangd"})
# Servers whose index contains the files of a compilation database and open documents.
_INDEXES_COMPILED_FILES = frozenset({"clangd"})
# Servers that publish nothing for a document whose diagnostics are unchanged, even when it or a
# document that it uses has changed.
_TERSE = frozenset({"gopls", "rust-analyzer"})
# Wait for a server to register pull diagnostics after startup.
_REGISTER_TIMEOUT_S = 1.0
# Open documents per server.
MAX_DOCUMENTS = 50
_SERVER_CANCELLED = -32802
_CONTENT_MODIFIED = -32801
_MAX_RETRIES = 3
_PULL = "textDocument/diagnostic"
_SYMBOLS = "textDocument/documentSymbol"


@dataclass(slots=True)
class OpenDocument:
    """Document as the server knows it.

    `version` grows with each change. `pushed` are the diagnostics last published for it, with their
    version (None if not given) and the time. `changed_at` is the time of the last change sent,
    `known_at` the time when the server had certainly read it. `stamp` identifies the file that the
    text was read from; None for a draft. `is_doubtful`: files that it may include have changed on
    disk. `raw_diagnostics` is the last complete result.
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
    """Session with a server. Belongs to one event loop.

    `settings` answer the server's configuration requests.
    """

    def __init__(self, folder: Path, settings: Mapping[str, Any]) -> None:
        self.folder = folder
        self.peer = JsonRpcPeer(self._on_request, self._on_notification)
        self.encoding: Encoding = "utf-16"
        self.capabilities: Mapping[str, Any] = {}
        self.documents: dict[Path, OpenDocument] = {}
        # True if other documents see an unwritten document.
        self.sees_drafts = True
        self._settings = settings
        self._registered: dict[str, str] = {}
        # Set by any message that a waiting task may be interested in.
        self._has_message = asyncio.Event()
        # A reopened document gets higher versions than before, so that late diagnostics of its
        # earlier texts are not taken for new ones.
        self._versions = itertools.count(1)
        # Documents for which the server has received more than one text.
        self._changed_paths: set[Path] = set()
        self._has_pushed = False
        # True if published diagnostics include a version.
        self._numbers_pushes = False
        self._is_terse = False
        # Time and document of the last change sent (None: files on disk), the time when the server
        # had certainly read it, and the time of its last published diagnostics.
        self._sent_at = 0.0
        self._sent_path: Path | None = None
        self._pushed_at = 0.0
        self._known_at: float | None = None
        self._ready_at = 0.0
        # Time that the server took for its last answer about a text that it had just received.
        self._answer_s = 0.0
        # Work in progress that the server reports, such as reading the project.
        self._tasks: set[str] = set()
        self._load_left_s = LOAD_TIMEOUT_S
        self._has_read_project = False
        # True if all files other than those of a compilation database must be open.
        self.indexes_compiled_files = False
        # True once the server has finished some work that it reported.
        self._has_finished_task = False
        self.is_shut_down = False

    async def initialize(self, options: Mapping[str, Any], timeout_s: float) -> None:
        """Initialize the server and read its capabilities. Raises as `JsonRpcPeer.request` does."""
        params = initialize_params(self.folder, options)
        result = await self.peer.request("initialize", params, timeout_s)
        capabilities = result.get("capabilities") if isinstance(result, dict) else None
        self.capabilities = capabilities if isinstance(capabilities, dict) else {}
        info = result.get("serverInfo") if isinstance(result, dict) else None
        name = info.get("name") if isinstance(info, dict) else None
        self.sees_drafts = name not in _READS_DISK
        self.indexes_compiled_files = name in _INDEXES_COMPILED_FILES
        self._is_terse = name in _TERSE
        name = self.capabilities.get("positionEncoding")
        self.encoding = next((encoding for encoding in ENCODINGS if encoding == name), "utf-16")
        self.peer.notify("initialized", {})
        if self._settings:
            params = {"settings": self._settings}
            self.peer.notify("workspace/didChangeConfiguration", params)
        self._ready_at = time.monotonic()

    @property
    def pulls_diagnostics(self) -> bool:
        """True if the server has announced pull diagnostics."""
        return self.offers("diagnosticProvider", _PULL)

    def close(self) -> None:
        """Note the server's end and wake all waiting tasks."""
        self.peer.close()
        self._has_message.set()

    def offers(self, capability: str, method: str) -> bool:
        """Return whether the server has announced a method, at startup or later."""
        value = self.capabilities.get(capability)
        return (value is not None and value is not False) or self.has_registered(method)

    def has_registered(self, method: str) -> bool:
        return method in self._registered.values()

    async def read_project(self, path: Path) -> None:
        """Wait until the server has read the project, before the first request about all files.

        pyright answers from the files found so far without saying so, but publishes diagnostics of
        an open file only when it has found them all.
        """
        if not self._has_read_project:
            await self.diagnose(path, LOAD_TIMEOUT_S)
            if not self.indexes_compiled_files:
                await self.finish_loading()
            self._has_read_project = True

    async def finish_loading(self) -> bool:
        """Wait for the server's own work. Return whether there was any.

        Until then its answers lack the files that it has not read.
        """
        if not self._tasks:
            return False
        until = time.monotonic() + self._load_left_s
        while self._tasks and (left_s := until - time.monotonic()) > 0:
            await self._wait_for_message(left_s)
        self._load_left_s = max(0.0, until - time.monotonic())
        return True

    async def finish_indexing(self, timeout_s: float) -> bool:
        """Wait for the index of the compiled files; return whether it is complete.

        The wait is longer if the total wait for loading is not used up.

        The server reports this work, but not before it has found the compilation database.
        """
        until = time.monotonic() + max(self._load_left_s, timeout_s)
        while (left_s := until - time.monotonic()) > 0 and not self._is_indexed:
            await self._wait_for_message(left_s)
        self._load_left_s = min(self._load_left_s, max(0.0, until - time.monotonic()))
        return self._is_indexed

    @property
    def _is_indexed(self) -> bool:
        return self._has_finished_task and not self._tasks

    def open(self, path: Path, text: str, language: str) -> OpenDocument:
        """Open or update a document with this text, independent of the file on disk."""
        document = self.documents.get(path)
        if document is None:
            self._make_room()
            document = OpenDocument(text, language, next(self._versions))
            self.documents[path] = document
            self._note_sent(path)
            item = {
                "uri": uri_of(path),
                "languageId": language,
                "version": document.version,
                "text": text,
            }
            self.peer.notify("textDocument/didOpen", {"textDocument": item})
            return document
        # Keep the order of use: the least recently used document is closed first.
        self.documents[path] = self.documents.pop(path)
        document.stamp = None
        if document.text != text:
            document.text, document.version = text, next(self._versions)
            self._changed_paths.add(path)
            document.changed_at, document.known_at = time.monotonic(), None
            document.is_doubtful = False
            self._note_sent(path)
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
        """Close a document; the server uses the file on disk again."""
        if self.documents.pop(path, None) is not None:
            self._changed_paths.add(path)
            self._note_sent(None)
            self.peer.notify("textDocument/didClose", {"textDocument": {"uri": uri_of(path)}})

    def save(self, path: Path) -> None:
        """Notify the server that the document was written to disk."""
        if path in self.documents:
            self.peer.notify("textDocument/didSave", {"textDocument": {"uri": uri_of(path)}})

    def files_changed(self, changes: Iterable[tuple[Path, int]]) -> None:
        """Notify the server of files that were created (1), changed (2) or deleted (3) on disk."""
        kinds = dict(changes)
        events = [{"uri": uri_of(path), "type": kind} for path, kind in kinds.items()]
        if events:
            self.peer.notify("workspace/didChangeWatchedFiles", {"changes": events})
            # The server ignores the files of its open documents.
            if kinds.keys() - self.documents.keys():
                self._note_sent(None)
            for document in self.documents.values():
                document.is_doubtful = True

    def _note_sent(self, path: Path | None) -> None:
        self._sent_at, self._sent_path, self._known_at = time.monotonic(), path, None

    def _make_room(self) -> None:
        while len(self.documents) >= MAX_DOCUMENTS:
            self.close_document(next(iter(self.documents)))

    async def diagnose(self, path: Path, timeout_s: float) -> tuple[Diagnostic, ...] | None:
        """Return the diagnostics of an open document, or None if they did not arrive in time.

        Raises `PeerClosed`.
        """
        document = self.documents[path]
        if document.is_doubtful and self._numbers_pushes and not self._is_terse:
            # Some servers check an unchanged text again only when it is opened.
            document = self._reopen(path)
        version = document.version
        try:
            async with asyncio.timeout(timeout_s):
                if has_tsserver(self.capabilities):
                    items = await ask_tsserver(self.peer, path, timeout_s)
                elif await self._should_pull():
                    items = await self._pull(path, timeout_s)
                elif self._is_terse:
                    items = await self._wait_for_terse(path, timeout_s)
                else:
                    items = await self._wait_for_push(path, timeout_s)
        except TimeoutError:
            return None
        if document.version != version:
            # The text has changed since, so the diagnostics belong to another version.
            return None
        if not isinstance(items, list):
            return None
        document.raw_diagnostics = items
        return read_diagnostics(items, document.text, self.encoding)

    async def _should_pull(self) -> bool:
        """Return whether to pull diagnostics; some servers announce that only after startup."""
        if self.offers("diagnosticProvider", _PULL):
            return True
        until = self._ready_at + _REGISTER_TIMEOUT_S
        while not self._has_pushed and (left_s := until - time.monotonic()) > 0:
            await self._wait_for_message(left_s)
            if self.has_registered(_PULL):
                return True
        return False

    async def _pull(self, path: Path, timeout_s: float) -> Any:
        params = {"textDocument": {"uri": uri_of(path)}}
        for _ in range(_MAX_RETRIES):
            try:
                report = await self.peer.request(_PULL, params, timeout_s)
            except ResponseError as exc:
                if exc.error_code not in (_SERVER_CANCELLED, _CONTENT_MODIFIED):
                    raise
                continue
            return report.get("items") if isinstance(report, dict) else None
        raise TimeoutError

    async def _wait_for_push(self, path: Path, timeout_s: float) -> Any:
        """Wait for diagnostics of the last text sent, not of an earlier text."""
        document = self.documents[path]
        while True:
            if self._numbers_pushes:
                if (document.pushed_version or 0) >= document.version:
                    return document.pushed
                left_s = timeout_s
            elif document.known_at is None:
                await self._wait_until_read(path, timeout_s)
                continue
            else:
                known_at = document.known_at
                if document.pushed_at > known_at:
                    left_s = document.pushed_at + QUIET_INTERVAL_S - time.monotonic()
                else:
                    # The server publishes nothing when the result is unchanged.
                    silent_s = SILENCE_TIMEOUT_S if self._has_pushed else FIRST_SILENCE_TIMEOUT_S
                    left_s = known_at + self._silence_s(silent_s) - time.monotonic()
                if left_s <= 0:
                    return document.pushed
            await self._wait_for_message(left_s)

    async def _wait_for_terse(self, path: Path, timeout_s: float) -> Any:
        """Wait for the diagnostics of a terse server.

        It publishes for the document that was changed last, and for others only when they change:
        those are up to date once it has read everything and is quiet.
        """
        document = self.documents[path]
        while True:
            if self._sent_path == path and self._is_up_to_date(path):
                return document.pushed
            if self._known_at is None:
                await self._wait_until_read(path, timeout_s, force=True)
                continue
            quiet_at = max(self._known_at, self._pushed_at) + QUIET_INTERVAL_S
            if self._sent_path is None or not self._is_up_to_date(self._sent_path):
                silent_s = self._silence_s(SHORT_SILENCE_TIMEOUT_S)
                quiet_at = max(quiet_at, self._sent_at + silent_s)
            if not self._has_pushed:
                quiet_at = max(quiet_at, self._ready_at + FIRST_WORD_TIMEOUT_S)
            left_s = quiet_at - time.monotonic()
            if left_s <= 0 and not self._tasks:
                # A server that never published anything may not have understood the project.
                return (document.pushed or []) if self._has_pushed else None
            await self._wait_for_message(left_s if left_s > 0 else timeout_s)

    def _silence_s(self, minimum_s: float) -> float:
        """Return how long a silent server may still be at work."""
        factor = _SILENCE_FACTOR if self._has_pushed else _FIRST_SILENCE_FACTOR
        return max(minimum_s, factor * self._answer_s)

    def _is_up_to_date(self, path: Path) -> bool:
        """Return whether the published diagnostics belong to the last text sent."""
        document = self.documents.get(path)
        return document is not None and (document.pushed_version or 0) >= document.version

    async def _wait_until_read(self, path: Path, timeout_s: float, force: bool = False) -> None:
        """Wait until the server has read a document.

        Messages are read in order, so diagnostics that follow an answer do not belong to an older
        text.
        """
        document = self.documents[path]
        version, sent_at = document.version, self._sent_at
        has_one_text = path not in self._changed_paths
        if has_one_text and self._has_pushed and not force:
            document.known_at = document.changed_at
            return
        if self.offers("documentSymbolProvider", _SYMBOLS):
            params = {"textDocument": {"uri": uri_of(path)}}
            asked_at = time.monotonic()
            with suppress(ResponseError):
                await self.peer.request(_SYMBOLS, params, timeout_s)
            self._answer_s = time.monotonic() - asked_at
        if document.version == version:
            # Diagnostics can belong to one text only if the server has received no other.
            document.known_at = document.changed_at if has_one_text else time.monotonic()
        if self._sent_at == sent_at:
            self._known_at = time.monotonic()

    async def _wait_for_message(self, timeout_s: float) -> None:
        self._has_message.clear()
        if self.peer.is_closed:
            raise PeerClosed("It has ended.")
        try:
            async with asyncio.timeout(timeout_s):
                await self._has_message.wait()
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
        if kind == "begin" and len(self._tasks) < _MAX_TASKS:
            self._tasks.add(token)
        elif kind == "end":
            self._tasks.discard(token)
            self._has_finished_task = True
        self._has_message.set()

    def _note_diagnostics(self, params: Mapping[str, Any]) -> None:
        path = path_of(params.get("uri"))
        document = self.documents.get(path) if path is not None else None
        version = params.get("version")
        if document is not None and isinstance(params.get("diagnostics"), list):
            self._has_pushed = True
            if isinstance(version, int):
                self._numbers_pushes = True
            elif self._numbers_pushes:
                # The server drops the diagnostics of a closed document.
                return
            document.pushed = params["diagnostics"]
            document.pushed_version = version if isinstance(version, int) else None
            document.pushed_at = self._pushed_at = time.monotonic()
        self._has_message.set()

    def _on_request(self, method: str, params: Any) -> Any:
        match method:
            case "workspace/configuration":
                return [self._setting(item.get("section")) for item in params["items"][:1000]]
            case "workspace/workspaceFolders":
                return [{"uri": uri_of(self.folder), "name": self.folder.name}]
            case "client/registerCapability":
                for registration in params["registrations"][:1000]:
                    self._registered[str(registration["id"])] = str(registration["method"])
                self._has_message.set()
                return None
            case "client/unregisterCapability":
                for registration in params["unregisterations"][:1000]:
                    self._registered.pop(str(registration["id"]), None)
                return None
            case "workspace/applyEdit":
                # Only tool calls change files: they pass the policy and a person's approval.
                return {"applied": False, "failureReason": "Kore applies no edits by itself."}
            case "window/workDoneProgress/create" | "window/showMessageRequest":
                return None
            case method if method.endswith("/refresh"):
                return None
        raise UnknownMethod(method)

    def _setting(self, section: Any) -> Any:
        """Return a part of the settings by its dotted name, such as `python.analysis`."""
        value: Any = self._settings
        for part in str(section).split(".") if section else ():
            value = value.get(part) if isinstance(value, dict) else None
        return value if value is not None else {}
