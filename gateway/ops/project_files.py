"""Remote access to files in the owner's folders.

The rules of the owner's tools apply: no access outside of the folder, to blocked paths, to Kore's
own files, or through a link that leads outside.
"""

import base64
import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from agent.errors import KoreError, ToolError
from agent.i18n import t
from agent.security.files import file_io
from agent.security.files.file_io import exclusive_file
from agent.security.files.safe_open import LISTED, open_folder_beneath
from agent.security.taint.marked_write import write_marked
from agent.settings import ToolSettings
from agent.text.media_types import sniff_image_type
from agent.text.text_document import Document, TextFormat, decode, diff
from agent.text.visible import escape_line
from agent.tools.base import CallContext, ToolEnvironment
from agent.tools.files.workspace_scope import WorkspaceScope
from agent.types import ToolCall
from agent.undo.recorder import Recorder
from gateway.channels.table import folders_of_chats
from gateway.config import Settings

T = TypeVar("T")

# Screens show no larger files, and editors are slow with them.
_MAX_FILE_BYTES = 1_000_000
_MAX_ENTRIES = 2_000
_MAX_PICTURE_BYTES = 5_000_000


class FileChangedMeanwhile(KoreError):
    """The file has changed since it was read."""

    code = "file-changed"


class ProjectFiles:
    """Reader and writer of project files without cached state.

    All methods block.
    """

    def __init__(self, settings: Settings, tools: ToolSettings) -> None:
        self._settings = settings
        self._scope = WorkspaceScope(tools)

    def list_places(self) -> Sequence[str]:
        """Return the existing folders: the workspace, trusted folders, and folders of chats."""
        trusted = self._settings.security.trusted_folders
        folders = (str(self._settings.agent.workspace), *trusted, *folders_of_chats(self._settings))
        real = (Path(os.path.realpath(folder)) for folder in folders)
        return list(dict.fromkeys(str(folder) for folder in real if folder.is_dir()))

    def find_place(self, place: str | None) -> Path:
        """Return one of the places; None is the workspace. Raises `KoreError`."""
        workspace = os.path.realpath(self._settings.agent.workspace)
        return self.call(workspace if place is None else place).environment.workspace

    def list_folder(self, place: str, path: str) -> Sequence[Mapping[str, Any]]:
        """List a folder of a place, folders first."""
        call = self.call(place)
        folder = self.find(call, path)
        is_hidden = self._scope.hidden_test(call)
        entries: list[tuple[bool, str, int, float]] = []

        def look() -> None:
            with open_folder_beneath(folder, flags=LISTED) as fd, os.scandir(fd) as listed:
                for entry in listed:
                    if len(entries) == _MAX_ENTRIES:
                        return
                    if not is_hidden(folder, entry):
                        is_folder = entry.is_dir()
                        facts = entry.stat()
                        size = 0 if is_folder else facts.st_size
                        entries.append((not is_folder, entry.name, size, facts.st_mtime))

        _answer(folder, look)
        return [
            {"name": name, "is_folder": not is_file, "size": size, "changed_at": changed_at}
            for is_file, name, size, changed_at in sorted(entries)
        ]

    def read_file(self, place: str, path: str) -> Mapping[str, Any]:
        """Return a text and the digest of its file; both are '' for a missing file."""
        file = self.find(self.call(place), path)
        document, data = self._read(file)
        return _as_json(document, data)

    def read_picture(self, place: str, path: str) -> Mapping[str, Any]:
        """Return a picture of a type that browsers show, as base64."""
        file = self.find(self.call(place), path)
        data = _answer(file, lambda: file_io.read(file, _MAX_PICTURE_BYTES))
        media_type = sniff_image_type(data[:16])
        if media_type is None:
            raise KoreError(t("{name} is not a picture", name=escape_line(file.name)))
        return {"media_type": media_type, "data": base64.b64encode(data).decode()}

    def compare(self, place: str, path: str, text: str) -> Mapping[str, Any]:
        """Compare a text with the current file.

        Returns the `diff` from the file to the text, and the file's `digest`.
        """
        file = self.find(self.call(place), path)
        document, data = self._read(file)
        theirs, mine = (name.replace("\r\n", "\n") for name in (document.text, text))
        return {"diff": diff(escape_line(path), theirs, mine), "digest": _digest(data)}

    def write_file(self, call: CallContext, path: str, text: str, digest: str) -> Mapping[str, Any]:
        """Replace the file with this digest; '' creates a new file."""
        file = self.find(call, path)
        with exclusive_file(file):
            document, data = self._read(file)
            if _digest(data) != digest:
                raise FileChangedMeanwhile(
                    t("{name} was changed meanwhile", name=escape_line(file.name)),
                    hint=t("read it again, and make your change in that"),
                )
            if "\r\n" in document.text and "\r\n" not in text:
                # Browsers use a single kind of line end.
                text = text.replace("\n", "\r\n")
            changed = Document(text, document.form)
            new = _answer(file, changed.encode)
            if len(new) > _MAX_FILE_BYTES:
                raise KoreError(
                    t("{name} may have {most:,} bytes", name=file.name, most=_MAX_FILE_BYTES)
                )
            _answer(file, lambda: _write(file, new, call))
        return _as_json(changed, new)

    def find_sent(self, path: str) -> Path:
        """Return the file for a path used by one of the owner's tools.

        Relative paths start in the workspace, or in another place. Raises `ToolError`.
        """
        obstacle = ToolError(t("it no longer exists"))
        for place in self.list_places():
            try:
                file = self._scope.find(path, self.call(place))
                if file_io.kind(file) == "file":
                    return file
            except ToolError as exc:
                obstacle = exc
        raise obstacle

    def _read(self, file: Path) -> tuple[Document, bytes | None]:
        """Return the document and its bytes; None instead of bytes for a missing file."""
        if _answer(file, lambda: file_io.kind(file)) is None:
            return Document("", TextFormat()), None
        data = _answer(file, lambda: file_io.read(file, _MAX_FILE_BYTES))
        return _answer(file, lambda: decode(data, file)), data

    def call(self, place: str, changes: Recorder | None = None) -> CallContext:
        """Return a call by the owner in one of the places.

        Raises `KoreError` for any other place.
        """
        places = self.list_places()
        if place not in places:
            raise KoreError(
                t(
                    "found the folder {found}, expected one of {places}",
                    found=escape_line(place[:200]),
                    places=", ".join(map(escape_line, places)),
                )
            )
        folder = Path(place)
        memory = self._settings.agent.workspace / "memory" / "MEMORY.md"
        environment = ToolEnvironment("", folder, memory, owner=True)
        recorder = changes or Recorder()
        return CallContext(ToolCall("", "", {}, ""), environment, lambda *_: None, changes=recorder)

    def find(self, call: CallContext, path: str) -> Path:
        scope = self._scope
        root = call.environment.workspace
        real = _answer(root, lambda: scope.find(path or ".", call))
        if not real.is_relative_to(root):
            raise KoreError(t("{path} is not in {folder}", path=escape_line(path), folder=root))
        return real


def _answer(path: Path, work: Callable[[], T]) -> T:
    try:
        return work()
    except ToolError as exc:
        raise KoreError(str(exc)) from exc
    except OSError as exc:
        raise KoreError(
            t("{path} cannot be read: {reason}", path=escape_line(str(path)), reason=exc.strerror)
        ) from None


def _write(file: Path, data: bytes, call: CallContext) -> None:
    # An edit does not make other people's untrusted text trusted.
    with call.changes.file(file, data):
        write_marked(file, data, call.environment.workspace, frozenset())


def _as_json(document: Document, data: bytes | None) -> Mapping[str, Any]:
    return {"text": document.text, "digest": _digest(data), "size": len(data or b"")}


def _digest(data: bytes | None) -> str:
    return "" if data is None else hashlib.sha256(data).hexdigest()
