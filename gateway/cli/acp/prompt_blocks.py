"""What an editor sends with a prompt: words, pictures, links and files."""

from collections.abc import Mapping, Sequence
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

from agent.errors import KoreError
from agent.prompts import render_prompt
from agent.records import frozen
from agent.security.taint.origin import TrustedOrigins
from gateway.core.messages import Media
from gateway.media.pictures import store_base64


@frozen
class PromptParts:
    """`text` are the person's words. `files` is what they show, for the model only, as
    `MessageOptions.project` has it."""

    text: str
    media: tuple[Media, ...] = ()
    files: Mapping[str, Any] | None = None


def read_blocks(blocks: Sequence[Any], pictures: Path, origin: TrustedOrigins) -> PromptParts:
    """Pictures are kept in the folder `pictures`. Raises `acp.RequestError` for what cannot be
    taken."""
    words: list[str] = []
    media: list[Media] = []
    files: list[str] = []
    taint: set[str] = set()
    for block in blocks:
        match block:
            case TextContentBlock(text=text):
                words.append(text)
            case ImageContentBlock(data=data):
                media.append(_picture(data, pictures))
            case ResourceContentBlock(uri=uri, name=name):
                words.append(_path_of(uri) or f"{name}: {uri}")
            case EmbeddedResourceContentBlock(resource=TextResourceContents(uri=uri, text=text)):
                path = _path_of(uri) or uri
                words.append(path)
                files.append(render_prompt("project_file", path=path, text=text))
                taint.add("private")
                if not origin.is_own(Path(path)) or origin.is_untrusted(Path(path)):
                    taint.add("untrusted")
            case EmbeddedResourceContentBlock(resource=BlobResourceContents(uri=uri)):
                words.append(_path_of(uri) or uri)
            case _:
                raise refusal("sound cannot be taken here; expected text, pictures or files")
    text = "\n".join(one for one in words if one.strip())
    if not files:
        return PromptParts(text, tuple(media))
    update = {"text": "\n\n".join(files), "taint": sorted(taint), "evicted": 0, "parts": files}
    return PromptParts(text, tuple(media), update)


def refusal(words: str) -> acp.RequestError:
    """Of what an editor asks that cannot be: invalid parameters, in one sentence."""
    return acp.RequestError(-32602, words)


def _path_of(uri: str) -> str | None:
    """The path of a file on this machine."""
    parts = urlsplit(uri)
    is_local = parts.scheme == "file" and parts.netloc in ("", "localhost")
    path = unquote(parts.path)
    return path if is_local and path.startswith("/") and "\n" not in path else None


def _picture(data: str, folder: Path) -> Media:
    try:
        return store_base64(data, folder)
    except KoreError as exc:
        raise refusal(str(exc)) from None
