"""Content blocks of an editor's prompt: text, pictures, links and files."""

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import acp
from acp.schema import (
    BlobResourceContents,
    EmbeddedResourceContentBlock,
    ImageContentBlock,
    ResourceContentBlock,
    TextContentBlock,
    TextResourceContents,
)

from agent.context.project.directory_tree import describe_size
from agent.errors import KoreError
from agent.prompts import render_prompt
from agent.records import frozen
from agent.security.files.paths import INBOX_FOLDER
from agent.security.taint.file_marks import is_marked, is_name_marked
from agent.security.taint.origin import TrustedOrigins
from agent.text.visible import escape_line
from agent.types import Taint
from gateway.core.messages import Media
from gateway.media.pictures import store_base64


@frozen
class PromptParts:
    """Content of a prompt.

    `text` is the person's text. `files` are shown to the model only, in the format of
    `MessageOptions.project`.
    """

    text: str
    media: tuple[Media, ...] = ()
    files: Mapping[str, Any] | None = None


def read_blocks(blocks: Sequence[Any], workspace: Path, origin: TrustedOrigins) -> PromptParts:
    """Convert the blocks of an editor; pictures are stored in the workspace's inbox.

    Raises `acp.RequestError` for unsupported blocks.
    """
    words: list[str] = []
    media: list[Media] = []
    references = _EditorReferences(origin)
    for block in blocks:
        match block:
            case TextContentBlock(text=text):
                words.append(text)
            case ImageContentBlock(data=data):
                media.append(_picture(data, workspace))
            case ResourceContentBlock(uri=uri, name=name):
                words.append(references.refer(uri, name))
            case EmbeddedResourceContentBlock(resource=TextResourceContents(uri=uri, text=text)):
                words.append(references.refer(uri))
                references.add(uri, text)
            case EmbeddedResourceContentBlock(resource=BlobResourceContents(uri=uri, blob=blob)):
                words.append(references.refer(uri))
                if (picture := _embedded_picture(blob, workspace)) is not None:
                    media.append(picture)
                else:
                    references.add_data(uri, len(blob) * 3 // 4)
            case _:
                raise refusal("audio is not supported here; expected text, pictures or files")
    text = "\n".join(word for word in words if word.strip())
    return PromptParts(text, tuple(media), references.update())


class _EditorReferences:
    """Files and links that an editor adds to the person's words.

    Only the path of an existing, trusted and unmarked file is part of the person's words. Any other
    address or name may come from a program or a stranger and is replaced with a number.
    """

    def __init__(self, origin: TrustedOrigins) -> None:
        self._origin = origin
        self._texts: list[str] = []
        self._taint: set[Taint] = {"private"}
        self._numbers: dict[str, str] = {}

    def refer(self, uri: str, name: str = "") -> str:
        """Return the replacement for the file in the person's words."""
        if (path := self._own_path(uri)) is not None:
            return path
        reference = _path_of(uri) or (f"{name}: {uri}" if name else uri)
        number = self._numbers.get(uri)
        if number is None:
            number = self._numbers[uri] = f"file {len(self._numbers) + 1}"
            self._texts.append(
                render_prompt("editor_reference", number=number, reference=escape_line(reference))
            )
        self._taint.add("untrusted")
        return f"[{number}]"

    def add(self, uri: str, text: str) -> None:
        """Add the content of a file as it is in the editor."""
        path = escape_line(_path_of(uri) or uri)
        self._texts.append(render_prompt("project_file", path=path, text=text))

    def add_data(self, uri: str, size_bytes: int) -> None:
        """Add a file that cannot be shown."""
        reference, size = escape_line(_path_of(uri) or uri), describe_size(size_bytes)
        self._texts.append(render_prompt("editor_data", reference=reference, size=size))

    def update(self) -> Mapping[str, Any] | None:
        """Return the references in the format of `MessageOptions.project`."""
        if not self._texts:
            return None
        text = "\n\n".join(self._texts)
        return {"text": text, "taint": sorted(self._taint), "evicted": 0, "parts": self._texts}

    def _own_path(self, uri: str) -> str | None:
        text = _path_of(uri)
        if text is None or os.path.normpath(text) != text or not os.path.lexists(text):
            return None
        path = Path(text)
        # A folder is also marked for its contents.
        is_strange = is_name_marked(path) if path.is_dir() else is_marked(path)
        return None if is_strange or not self._origin.is_own(path) else text


def refusal(words: str) -> acp.RequestError:
    """Return the protocol error for invalid parameters, in one sentence."""
    return acp.RequestError(-32602, words)


def _path_of(uri: str) -> str | None:
    """Return the path of a file URI on this machine, or None."""
    parts = urlsplit(uri)
    is_local = parts.scheme == "file" and parts.netloc in ("", "localhost")
    path = unquote(parts.path)
    return path if is_local and path.startswith("/") and "\n" not in path else None


def _embedded_picture(data: str, workspace: Path) -> Media | None:
    with suppress(acp.RequestError):
        return _picture(data, workspace)
    return None


def _picture(data: str, workspace: Path) -> Media:
    try:
        return store_base64(data, workspace / INBOX_FOLDER / "editor", workspace)
    except KoreError as exc:
        raise refusal(str(exc)) from None
