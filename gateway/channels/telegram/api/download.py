"""Download of people's files from the Bot API: by HTTP, or from a local server's disk.

https://core.telegram.org/bots/api#getfile
"""

import asyncio
import errno
import os
import stat
from contextlib import aclosing
from pathlib import Path
from typing import BinaryIO
from urllib.parse import quote

from telegram.error import TelegramError

from agent.i18n import mark_for_translation
from agent.security.files.safe_open import open_folder_beneath
from gateway.channels.base import NotFetched
from gateway.channels.telegram.api.request import AiohttpRequest, Refusal, UnreadableResponse
from gateway.channels.telegram.settings import TelegramSettings
from gateway.channels.telegram.spec import OFFICIAL_SERVER
from gateway.core.messages import Media

# Limit of Telegram's own server; local servers have none.
OFFICIAL_LIMIT_BYTES = 20 * 2**20
_CHUNK_BYTES = 256 * 1024
_TOO_LARGE = mark_for_translation("it exceeds the limit of {limit} MB")
_UNWILLING = mark_for_translation("Telegram refused the download ({reason})")
_BROKEN = mark_for_translation("the connection to Telegram kept failing")
_CLOSED = mark_for_translation("I cannot open the file on the Bot API server ({reason})")


async def fetch(
    settings: TelegramSettings, request: AiohttpRequest, media: Media, into: BinaryIO, limit: int
) -> None:
    """Write the file's bytes, at most `limit`. Raises `NotFetched`, and `OSError` of `into`."""
    if settings.root == OFFICIAL_SERVER:
        limit = min(limit, OFFICIAL_LIMIT_BYTES)
    if media.size_bytes is not None and media.size_bytes > limit:
        raise too_large(limit)
    try:
        await _fetch(settings, request, media, into, limit)
    except Refusal as exc:
        if "too big" in exc.description:
            raise too_large(min(limit, OFFICIAL_LIMIT_BYTES)) from exc
        reason = exc.description
        raise NotFetched(_UNWILLING, is_retryable=exc.code == 429, reason=reason) from exc
    except TelegramError as exc:
        raise NotFetched(_BROKEN, is_retryable=True) from exc


async def _fetch(
    settings: TelegramSettings, request: AiohttpRequest, media: Media, into: BinaryIO, limit: int
) -> None:
    path = await _path_of(settings, request, media)
    own = path.startswith("/") and settings.root != OFFICIAL_SERVER
    if own and await asyncio.to_thread(_copy, settings.token, path, into, limit):
        return
    url = f"{settings.root}/file/bot{settings.token}/{quote(path.lstrip('/'))}"
    size = 0
    async with aclosing(request.download(url)) as chunks:
        async for chunk in chunks:
            size += len(chunk)
            if size > limit:
                raise too_large(limit)
            into.write(chunk)


def too_large(limit_bytes: int) -> NotFetched:
    return NotFetched(_TOO_LARGE, limit=limit_bytes // 2**20)


async def _path_of(settings: TelegramSettings, request: AiohttpRequest, media: Media) -> str:
    url = f"{settings.root}/bot{settings.token}/getFile"
    file = await request.call(url, {"file_id": media.remote})
    path = file.get("file_path") if isinstance(file, dict) else None
    if not isinstance(path, str) or ".." in Path(path).parts:
        raise UnreadableResponse("the result of getFile has no path", b"")
    return path


def _copy(token: str, path: str, into: BinaryIO, limit_bytes: int) -> bool:
    """Copy a file that a server with --local has stored on disk.

    Returns False for a path without a folder named like the token. Raises `NotFetched`, and
    `OSError` of `into`.
    """
    real = Path(os.path.realpath(path))
    if token not in real.parent.parts:
        return False
    try:
        source = _open_plain_file(real)
    except OSError as exc:
        raise NotFetched(_CLOSED, reason=exc.strerror or type(exc).__name__) from exc
    with open(source, "rb") as file:
        size = 0
        while chunk := file.read(_CHUNK_BYTES):
            size += len(chunk)
            if size > limit_bytes:
                raise too_large(limit_bytes)
            into.write(chunk)
    return True


def _open_plain_file(real: Path) -> int:
    """Return a descriptor of the regular file at exactly this path.

    Links, pipes and second names of private files are refused. Raises `OSError`.
    """
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    with open_folder_beneath(real.parent) as folder:
        fd = os.open(real.name, flags, dir_fd=folder)
    info = os.fstat(fd)
    if stat.S_ISREG(info.st_mode) and (info.st_nlink == 1 or info.st_mode & stat.S_IROTH):
        return fd
    os.close(fd)
    raise OSError(errno.EPERM, "it is not a regular file of the server")
