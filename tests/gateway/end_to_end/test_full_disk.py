"""A full disk: unstored messages are not confirmed, and work resumes once there is space."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fakes.bot_api import BotApi
from tests.fakes.model import ModelServer
from tests.gateway.end_to_end.gateway_process import GatewayProcess
from tests.postgres_server import only_sqlite

# Kore accepts no messages with less than 50 MB of free disk space, so the file system must be
# larger.
SIZE_MB = 56


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Mount a separate file system in memory."""
    folder = tmp_path / "disk"
    folder.mkdir()
    options = f"size={SIZE_MB}m,mode=0700"
    mounting = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)], capture_output=True
    )
    if mounting.returncode != 0:
        pytest.skip("a small file system can only be mounted by root")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


async def test_full_disk_pauses_ingestion(
    small_disk: Path, bot_api: BotApi, model_server: ModelServer
) -> None:
    async with GatewayProcess(small_disk, bot_api, model_server) as gateway:
        assert await gateway.answers_to(7, "before") == ["echo: before"]
        filler = small_disk / "filler"
        filler.write_bytes(bytes(10 * 2**20))
        confirmed = bot_api.confirmed_offset
        await bot_api.user_says(7, "meanwhile")
        await gateway.until(lambda: "not accepting messages" in gateway.log_text())
        assert bot_api.confirmed_offset == confirmed
        assert len(bot_api.pending_updates) == 1
        filler.unlink()
        await gateway.idle()
        assert bot_api.answers(7) == ["echo: before", "echo: meanwhile"]


@only_sqlite
async def test_message_is_not_lost_on_a_full_disk(
    small_disk: Path, bot_api: BotApi, model_server: ModelServer
) -> None:
    async with GatewayProcess(small_disk, bot_api, model_server) as gateway:
        model_server.latency_s = 0.5
        await bot_api.user_says(7, "hi")
        await gateway.until(lambda: model_server.requests)
        # Fill the disk to the last byte while the answer is in flight and must be stored.
        filler = small_disk / "filler"
        _fill(filler)
        await gateway.until(lambda: "disk is full" in gateway.output())
        assert bot_api.answers(7) == []
        filler.unlink()
        await gateway.idle()
        assert bot_api.answers(7) == ["echo: hi"]


async def test_unwritable_log_loses_no_answer(alone: GatewayProcess) -> None:
    alone.configure({"logging": {"file": "/dev/full"}})
    async with alone:
        assert await alone.answers_to(7, "hi") == ["echo: hi"]
        assert "anyone can use this bot" in alone.output()


def _fill(file: Path) -> None:
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT)
    try:
        for block in (2**20, 4096, 1):
            try:
                while os.write(descriptor, bytes(block)) == block:
                    pass
            except OSError:
                continue
    finally:
        os.close(descriptor)
