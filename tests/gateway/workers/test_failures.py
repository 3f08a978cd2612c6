"""Failures of turns in workers, as reported to the operator of the gateway."""

import pytest

from tests.fakes.model_script import refusal
from tests.gateway.workers.worker_group import WorkerGroup

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_front_reports_a_model_that_fails_in_a_worker(group: WorkerGroup, chat: int) -> None:
    for text in ("one", "two", "three"):
        group.model.script(refusal(404, "the model is lost", code="model_not_found"))
        await group.answers_to(chat, text)

    async def is_reported() -> bool:
        return (await group.front.status())["failing_model"] == "stand-in"

    await group.until(is_reported)
    status = await group.front.status()
    assert status["turns_failed"] == 3
    assert status["last_failure_reason"].startswith(f"telegram:123456 chat {chat}: ")
    assert status["last_failure_reason"].endswith("(rejected)")
    worker = group.worker_with(
        next(item["number"] for item in status["workers"]["alive"] if item["log"]["failed"])
    )
    assert worker.log_text().count("no answer after") >= 3

    await group.answers_to(chat, "four")

    async def is_well() -> bool:
        return (await group.front.status())["failing_model"] is None

    await group.until(is_well)
