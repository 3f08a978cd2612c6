"""Log lines, counts and reports of turns on a real database."""

import logging
from collections.abc import Sequence
from pathlib import Path

import pytest

from agent.errors import ContextTooLong, KeyRefused, Unavailable
from gateway.control.health import gateway_pages
from gateway.core.messages import Sender
from gateway.ops.doctor.checks import check_turns
from gateway.turns.usage.turn_log import failure_facts, metric_lines
from tests.gateway.parts import Parts, accept_messages, chat_message, running

DOWN = Unavailable("the server does not answer")
OWNER = "chat:9"


@pytest.fixture
def logged(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO, logger="gateway")
    return caplog


def _lines(logged: pytest.LogCaptureFixture, level: int) -> list[str]:
    """Return the lines about turns; messages of a failed turn have no others."""
    return [
        record.getMessage()
        for record in logged.records
        if record.levelno == level and (level > logging.INFO or record.name.endswith("turn_log"))
    ]


async def _say(parts: Parts, texts: Sequence[str], chat: str = "5") -> None:
    """Submit each message and wait until its turn is counted."""
    for text in texts:
        turns = parts.app.turn_log.turns
        await accept_messages(parts, chat_message(text, chat))
        await parts.platform.until(lambda turns=turns: parts.app.turn_log.turns > turns)


async def _health(parts: Parts, path: str) -> tuple[int, str]:
    async with gateway_pages(parts.service, dict, parts.app.turn_log.facts) as pages:
        page = await pages(path)
    assert page is not None
    return page[0], page[2]


async def test_answered_turn_is_one_line_without_its_text(
    tmp_path: Path, logged: pytest.LogCaptureFixture
) -> None:
    async with running(tmp_path, ["the answer"]) as parts:
        await _say(parts, ["the question"])
    (line,) = _lines(logged, logging.INFO)
    assert line.startswith("chat:bot chat 5: answered in ")
    assert " s, 1 call, " in line
    assert line.endswith(" tokens")
    assert "question" not in line


async def test_each_failed_turn_is_one_warning_with_its_code(
    tmp_path: Path, logged: pytest.LogCaptureFixture
) -> None:
    async with running(tmp_path, [DOWN] * 3) as parts:
        await _say(parts, ["one", "two", "three"])
        status = await parts.service.status()
    warnings = _lines(logged, logging.WARNING)
    assert len(warnings) == 3
    assert all(line.endswith("the server does not answer (unavailable)") for line in warnings)
    assert _lines(logged, logging.INFO) == []
    assert status["turns_failed"] == 3
    reason = "chat:bot chat 5: the server does not answer (unavailable)"
    assert status["last_failure_reason"] == reason


async def test_failing_default_model_degrades_the_deep_health_page_until_it_answers(
    tmp_path: Path,
) -> None:
    async with running(tmp_path, [*[DOWN] * 3, "well again"]) as parts:
        await _say(parts, ["one", "two"])
        assert (await _health(parts, "/healthz?deep"))[0] == 200
        await _say(parts, ["three"])
        assert (await _health(parts, "/healthz"))[0] == 200
        status, body = await _health(parts, "/healthz?deep")
        assert status == 503
        assert '"broken": ["model"]' in body
        assert check_turns(await parts.service.status()).state == "warn"
        await _say(parts, ["four"])
        assert (await _health(parts, "/healthz?deep"))[0] == 200
        assert check_turns(await parts.service.status()).state == "ok"


def test_status_of_an_older_gateway_has_no_failures() -> None:
    assert check_turns({"version": "0.0.9"}).state == "ok"


async def test_failures_of_messages_do_not_blame_the_model(tmp_path: Path) -> None:
    async with running(tmp_path, [ContextTooLong("too long")] * 20) as parts:
        await _say(parts, ["one", "two", "three", "four"])
        assert (await _health(parts, "/healthz?deep"))[0] == 200


async def test_owner_is_notified_once_per_hour(tmp_path: Path) -> None:
    failures = [KeyRefused("the key is not valid")] * 6
    async with running(tmp_path, ["hello", *failures], owner=OWNER) as parts:
        owner = chat_message("hi", "9", sender=Sender("9", "Olga"), private=True)
        await accept_messages(parts, owner)
        await parts.platform.until(lambda: parts.platform.texts("9"))
        await _say(parts, ["one", "two", "three", "four", "five", "six"])
        await parts.platform.until(lambda: len(parts.platform.texts("9")) > 1)
        (notice,) = parts.platform.texts("9")[1:]
    assert "keeps failing (in a row: 3)" in notice
    assert "key-refused" in notice


async def test_metrics_count_turns_failures_tokens_and_cost(tmp_path: Path) -> None:
    async with running(tmp_path, ["one", DOWN]) as parts:
        await _say(parts, ["one", "two"])
        _, text = await _health(parts, "/metrics")
    assert 'kore_turns_failed_total{code="unavailable"} 1' in text
    assert "kore_turn_seconds_count 2" in text
    assert 'kore_model_calls_total{model="scripted/scripted"} 1' in text
    assert 'kore_model_input_tokens_total{model="scripted/scripted"} ' in text
    assert 'kore_model_cost_usd_total{model="scripted/scripted"} ' in text


def _facts(**more: object) -> dict[str, object]:
    empty = {"turns": 0, "seconds": 0, "failed": {}, "models": {}, "last": None, "in_row": 0}
    return {**empty, "answered_at": 0.0, "failed_at": 0.0, **more}


def test_answer_of_one_worker_ends_the_failure_of_another() -> None:
    failing = _facts(in_row=3, failed_at=5.0, failed={"unavailable": 3}, last=[5.0, "w", "c", "r"])
    assert failure_facts([_facts(answered_at=4.0), failing], "m")["failing_model"] == "m"
    assert failure_facts([_facts(answered_at=6.0), failing], "m")["failing_model"] is None


def test_counts_of_workers_have_a_label_and_each_name_one_type() -> None:
    logs = {"": _facts(failed={"a": 1}), 'worker="2"': _facts(failed={"a": 2}, turns=3)}
    lines = list(metric_lines(logs))
    assert 'kore_turns_failed_total{code="a",worker="2"} 2' in lines
    assert 'kore_turn_seconds_count{worker="2"} 3' in lines
    types = [line for line in lines if line.startswith("# TYPE")]
    assert len(types) == len(set(types))
