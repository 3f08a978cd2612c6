"""Text that a preview already shows is not sent again, even by the next process."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agent.events import ModelEvent, Reply, TextDelta
from agent.providers.base import ModelRequest
from agent.types import Usage, assistant
from gateway.core.channel_events import Batch
from tests.fakes.platform import StreamingPlatform
from tests.gateway.parts import cancel_and_wait, chat_message, opened, running
from tests.gateway.stored import PRESENT

BEGUN = "All of it."


class Lingering:
    """Model that streams a text and ends later, with `rest` appended."""

    name = "lingering"

    def __init__(self, rest: str) -> None:
        self.may_finish = asyncio.Event()
        self._rest = rest

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        yield TextDelta(BEGUN)
        await self.may_finish.wait()
        if self._rest:
            yield TextDelta(self._rest)
        yield Reply(assistant(BEGUN + self._rest), Usage(1, 1), "stop")

    async def aclose(self) -> None:
        self.may_finish.set()


@pytest.mark.parametrize(("rest", "edits"), [("", 0), (" And more.", 1)])
async def test_restart_edits_only_outdated_messages(tmp_path: Path, rest: str, edits: int) -> None:
    platform, model = StreamingPlatform(), Lingering(rest)
    async with opened(tmp_path, model, platform=platform) as parts:
        # Nothing is delivered before the restart.
        work = asyncio.create_task(parts.bus.run())
        await parts.transaction_ends()
        await parts.bus.accept("chat", "bot", Batch([chat_message("go")]))
        await platform.until(lambda: ("preview", "1", BEGUN) in platform.calls)
        await parts.until_stored("outbox", provider_message_id=PRESENT)
        model.may_finish.set()
        await parts.until_stored("turn", state="done")
        await cancel_and_wait(work)
    async with running(tmp_path, [], platform=platform) as parts:
        await parts.until_stored("outbox", state="sent")
    assert platform.texts("1") == [BEGUN + rest]
    assert [kind for kind, *_ in platform.calls if kind in ("send", "edit")] == ["edit"] * edits
