"""Jumps of the system time, which neither extend a wait nor expire a question."""

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from agent.types import assistant
from gateway.channels.base import NotSent
from gateway.config.sections import Section, SecuritySection
from gateway.core.messages import OutboundPart, Route
from gateway.runtime.clock import SteadyClock
from gateway.store.repositories.delivery.outbox import OutgoingReply
from tests.fakes.gated import Gated
from tests.fakes.platform import Platform
from tests.gateway.access.approvals import (
    OWNER,
    Asking,
    change,
    question,
    seed,
)
from tests.gateway.parts import accept_messages, at_work, chat_message, opened, running

DAY_S = 86_400.0
REPLY = OutgoingReply("d", Route("chat", "bot", "1"), [OutboundPart("x")])


@pytest.fixture
def jump(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Return a function that shifts the system time by a number of seconds."""
    real = time.time

    def jump(seconds: float) -> None:
        monkeypatch.setattr(time, "time", lambda: real() + seconds)

    return jump


@pytest.mark.parametrize("seconds", [-DAY_S, DAY_S])
def test_steady_clock_does_not_jump(seconds: float, jump: Callable[[float], None]) -> None:
    before, clock = time.time(), SteadyClock()
    jump(seconds)
    assert before <= clock() < before + DAY_S / 2


async def test_clock_set_back_silences_no_chat(
    tmp_path: Path, jump: Callable[[float], None]
) -> None:
    platform = Platform()
    platform.fail("1", NotSent("down"))
    async with opened(tmp_path, Gated(), platform=platform) as parts, at_work(parts):
        await parts.sender.post(REPLY)
        await parts.until_stored("outbox", attempts=1)
        jump(-DAY_S)
        assert await platform.answers("1", 1) == ["x"]


async def test_clock_set_back_between_two_processes_silences_no_chat(
    tmp_path: Path, jump: Callable[[float], None]
) -> None:
    platform = Platform()
    platform.fail("1", NotSent("down"))
    async with opened(tmp_path, Gated(), platform=platform) as parts, at_work(parts):
        await parts.sender.post(REPLY)
        await parts.until_stored("outbox", attempts=1)
    jump(-DAY_S)
    async with opened(tmp_path, Gated(), platform=platform) as parts, at_work(parts):
        assert await platform.answers("1", 1) == ["x"]


async def test_question_does_not_expire_by_a_clock_jump(
    tmp_path: Path, jump: Callable[[float], None]
) -> None:
    file = seed(tmp_path)
    model = [assistant("", (change("1"), change("2", "b.txt"))), "done"]
    (tmp_path / "workspace" / "b.txt").write_text("old\n")
    async with running(tmp_path, model, owner=OWNER, platform=Asking()) as parts:
        await accept_messages(parts, chat_message("go"))
        first = await question(parts)
        jump(DAY_S)
        assert await parts.service.answer_approval(first.nonce, "once", "cli:0")
        await parts.until_stored("approval", id=2)
        # The second question has woken the expiry task.
        assert await parts.service.answer_approval((await question(parts)).nonce, "once", "cli:0")
        await parts.platform.until(lambda: "done" in parts.platform.texts("1"))
        assert file.read_text() == "new\n"


async def test_clock_set_back_does_not_extend_a_question(
    tmp_path: Path, jump: Callable[[float], None]
) -> None:
    seed(tmp_path)
    model = [assistant("", (change("1"),)), "done"]
    setting: dict[str, Section] = {"security": SecuritySection(approval_timeout_s=3600)}
    async with running(tmp_path, model, owner=OWNER, platform=Asking(), settings=setting) as parts:
        await accept_messages(parts, chat_message("go"))
        await question(parts)
    jump(-DAY_S)
    async with running(tmp_path, model, owner=OWNER, platform=Asking(), settings=setting) as parts:
        left_s = (await question(parts)).expires_at - time.time()
        assert 0 < left_s <= 3600
