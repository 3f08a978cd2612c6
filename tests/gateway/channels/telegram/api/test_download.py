"""Files from a Bot API server, hosted by Telegram or by the user."""

import asyncio
import io
import os
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from gateway.channels.base import NotFetched, SupportsDownloads, SupportsMedia
from gateway.channels.rate_limiter import RateLimiter
from gateway.channels.telegram.api.download import OFFICIAL_LIMIT_BYTES
from gateway.channels.telegram.channel import TelegramChannel
from gateway.core.messages import Media
from tests.fakes.bot_api import BotApi
from tests.fakes.faults import hang, reset, status, truncated
from tests.gateway.channels.telegram.conftest import QUICK

MEGABYTE = 2**20


def sent(api: BotApi, data: bytes) -> Media:
    result = api.files.field("document", data, "a.bin", None)
    return Media("document", remote=result["file_id"], unique=result["file_unique_id"])


async def fetch(channel: TelegramChannel, media: Media, limit: int = 100 * MEGABYTE) -> bytes:
    into = io.BytesIO()
    await channel.fetch(media, into, limit)
    return into.getvalue()


def test_channel_supports_downloads_and_media(channel: TelegramChannel) -> None:
    assert isinstance(channel, SupportsDownloads)
    assert isinstance(channel, SupportsMedia)


async def test_file_is_downloaded_completely(bot_api: BotApi, channel: TelegramChannel) -> None:
    data = bytes(range(256)) * 4096 * 3
    assert await fetch(channel, sent(bot_api, data)) == data


async def test_file_beyond_the_limit_is_rejected(bot_api: BotApi, channel: TelegramChannel) -> None:
    media = sent(bot_api, bytes(2 * MEGABYTE))
    with pytest.raises(NotFetched, match="limit of 1 MB"):
        await fetch(channel, media, MEGABYTE)
    bot_api.calls.clear()
    with pytest.raises(NotFetched, match="limit of 1 MB"):
        await fetch(channel, replace(media, size_bytes=2 * MEGABYTE), MEGABYTE)
    assert bot_api.calls == []


async def test_size_error_names_the_limit(bot_api: BotApi, channel: TelegramChannel) -> None:
    media = sent(bot_api, bytes(OFFICIAL_LIMIT_BYTES + 1))
    with pytest.raises(NotFetched, match="limit of 20 MB"):
        await fetch(channel, media)


@pytest.mark.parametrize("fault", [reset, truncated, hang, status(502), status(429, 1)])
@pytest.mark.parametrize("method", ["getFile", "file"])
async def test_retryable_errors_are_distinguished(
    bot_api: BotApi, channel: TelegramChannel, method: str, fault: object
) -> None:
    # Fail twice: the client itself repeats a GET on a connection that was just closed.
    bot_api.fail(method, fault, 2)  # type: ignore[arg-type]
    media = sent(bot_api, b"x" * 100)
    with pytest.raises(NotFetched) as failed:
        await fetch(channel, media)
    assert failed.value.is_retryable
    bot_api.heal()
    assert await fetch(channel, media) == b"x" * 100


async def test_missing_file_is_not_retryable(bot_api: BotApi, channel: TelegramChannel) -> None:
    with pytest.raises(NotFetched, match="Telegram refused the download") as failed:
        await fetch(channel, Media("document", remote="never"))
    assert not failed.value.is_retryable


async def test_file_of_a_local_server_is_read_from_disk(
    bot_api: BotApi, channel: TelegramChannel, tmp_path: Path
) -> None:
    bot_api.files.folder = tmp_path / "bot-api"
    data = bytes(OFFICIAL_LIMIT_BYTES + 1)
    assert await fetch(channel, sent(bot_api, data)) == data
    assert "file" not in bot_api.calls
    with pytest.raises(NotFetched, match="limit of 20 MB"):
        await fetch(channel, sent(bot_api, data), OFFICIAL_LIMIT_BYTES)


async def test_server_cannot_name_any_file_of_this_machine(
    bot_api: BotApi, channel: TelegramChannel, tmp_path: Path
) -> None:
    (tmp_path / "secret").write_bytes(b"CANARY")
    inside = tmp_path / bot_api.token / "documents"
    inside.mkdir(parents=True)
    (inside / "link").symlink_to(tmp_path / "secret")
    for path in (tmp_path / "secret", inside / "link", inside / ".." / ".." / "secret"):
        media = sent(bot_api, b"x")
        bot_api.files._paths[str(media.remote)] = str(path)
        into = io.BytesIO()
        # The file is requested over HTTP instead, where the fake server may have a file at that
        # path.
        with suppress(NotFetched):
            await channel.fetch(media, into, MEGABYTE)
        assert b"CANARY" not in into.getvalue()


async def test_only_regular_files_of_the_server_folder_are_read(
    bot_api: BotApi, channel: TelegramChannel, tmp_path: Path
) -> None:
    secret = tmp_path / "secret"
    secret.write_bytes(b"CANARY")
    secret.chmod(0o600)
    inside = tmp_path / bot_api.token / "documents"
    inside.mkdir(parents=True)
    # Opening a pipe directly would wait forever for a writer.
    os.mkfifo(inside / "pipe")
    (inside / "second").hardlink_to(secret)
    (inside / "folder").mkdir()
    for name in ("pipe", "second", "folder"):
        media = sent(bot_api, b"x")
        bot_api.files._paths[str(media.remote)] = str(inside / name)
        into = io.BytesIO()
        async with asyncio.timeout(30):
            with pytest.raises(NotFetched, match="I cannot open the file on the Bot API server"):
                await channel.fetch(media, into, MEGABYTE)
        assert into.getvalue() == b""


async def test_connection_is_opened_lazily() -> None:
    channel = TelegramChannel(QUICK, gate=RateLimiter(None))
    assert channel.file_limits.file_bytes == 50 * MEGABYTE
    await channel.aclose()
