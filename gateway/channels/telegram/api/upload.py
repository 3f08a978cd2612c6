"""Upload of files to Telegram, single or as an album, as multipart forms.

https://core.telegram.org/bots/api#sending-files
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiohttp

from agent.text.visible import escape_line, replace_lone_surrogates
from gateway.channels.base import MessageRefused
from gateway.channels.telegram.api.request import AiohttpRequest, Refusal, message_id_of
from gateway.channels.telegram.settings import TelegramSettings
from gateway.core.messages import OutboundFile, OutboundPart

# Slower uploads are aborted and repeated.
_SLOWEST_BYTES_S = 50_000
# Error descriptions for a file that Telegram cannot show as the requested kind.
_NOT_SHOWN = re.compile(r"PHOTO_|IMAGE_|VIDEO_|photo|wrong file type|too big", re.IGNORECASE)


async def send_files(
    settings: TelegramSettings,
    request: AiohttpRequest,
    target: Mapping[str, Any],
    part: OutboundPart,
) -> int:
    """Send a part's files to the `target` (chat, thread, reply).

    Returns the first message's id. Files that Telegram cannot show as photo or video are sent as
    documents. Raises `RequestNotSent`, `ResponseLost`, `Refusal`, and `MessageRefused` if a file is
    missing.
    """
    try:
        return await _send(settings, request, target, part)
    except Refusal as exc:
        plain = tuple(replace(file, kind="document") for file in part.files)
        if exc.code != 400 or plain == part.files or not _NOT_SHOWN.search(exc.description):
            raise
        return await _send(settings, request, target, replace(part, files=plain))


async def _send(
    settings: TelegramSettings,
    request: AiohttpRequest,
    target: Mapping[str, Any],
    part: OutboundPart,
) -> int:
    method = "sendMediaGroup" if len(part.files) > 1 else _method(part.files[0])
    size = sum(file.size_bytes or len(file.text or "") for file in part.files)
    with _form(target, part) as form:
        body = await request.carry(
            f"{settings.root}/bot{settings.token}/{method}",
            form,
            None,
            settings.answer_s + size / _SLOWEST_BYTES_S,
        )
    result = request.parse_json_payload(body)["result"]
    first = result[0] if isinstance(result, list) and result else result
    return message_id_of(first)


@contextmanager
def _form(target: Mapping[str, Any], part: OutboundPart) -> Iterator[aiohttp.FormData]:
    """Yield the form with open files. Raises `MessageRefused` if a file is missing."""
    form = aiohttp.FormData(quote_fields=False)
    for name, value in target.items():
        form.add_field(name, value if isinstance(value, str) else json.dumps(value))
    caption = _caption(part)
    with ExitStack() as stack:
        if len(part.files) == 1:
            (file,) = part.files
            for name, value in caption.items():
                form.add_field(name, value if isinstance(value, str) else json.dumps(value))
            form.add_field(file.kind, _open_content(file, stack), filename=_name(file))
        else:
            media: list[dict[str, Any]] = []
            for number, file in enumerate(part.files):
                form.add_field(f"file{number}", _open_content(file, stack), filename=_name(file))
                media.append({"type": file.kind, "media": f"attach://file{number}"})
            media[0].update(caption)
            form.add_field("media", json.dumps(media))
        yield form


def _open_content(file: OutboundFile, stack: ExitStack) -> Any:
    if file.text is not None:
        return file.text.encode()
    try:
        return stack.enter_context(Path(file.path or "").open("rb"))
    except OSError as exc:
        raise MessageRefused(f"the copy of {file.name} is gone") from exc


def _method(file: OutboundFile) -> str:
    return f"send{file.kind.capitalize()}"


def _name(file: OutboundFile) -> str:
    return escape_line(
        replace_lone_surrogates(file.name.replace('"', "'").replace("\r", " ").replace("\n", " "))
    )


def _caption(part: OutboundPart) -> Mapping[str, Any]:
    if not part.text:
        return {}
    entities: Sequence[Mapping[str, Any]] = [
        {"type": entity.type, "offset": entity.offset, "length": entity.length, **entity.extra}
        for entity in part.entities
    ]
    return {"caption": replace_lone_surrogates(part.text), "caption_entities": entities}
