"""Log lines, counts and failures of turns, for the operator of a gateway."""

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from agent.events import Error
from agent.providers.usage import NUSD_PER_USD, Charge, UsageTotals
from agent.records import frozen
from gateway.core.messages import InboundMessage

log = logging.getLogger(__name__)

# Number of consecutive failures of a model after which it is reported.
MAX_FAILURES_IN_ROW = 3
# Error codes that are not the model's fault: the next message may well be answered.
_ABOUT_THE_MESSAGE = frozenset({"context-too-long", "denied", "bad-output", "limit"})


@frozen
class ModelFailure:
    """Failure of a turn.

    `in_row` counts failures of its model since the last answer; failures caused by the message do
    not count.
    """

    at: float
    where: str
    model: str
    code: str
    reason: str
    in_row: int


class Ending(Protocol):
    """End of a turn: `error` if it failed, `stopped` if it was cut short."""

    @property
    def error(self) -> Error | None: ...
    @property
    def stopped(self) -> str | None: ...


@dataclass(slots=True)
class TurnLog:
    """Counters for the turns of this process.

    Models are listed by the name with which they were selected; the default model's name is empty.
    """

    clock: Callable[[], float] = time.time
    turns: int = 0
    seconds: float = 0.0
    failed: Counter[str] = field(default_factory=Counter)
    last_failure: ModelFailure | None = None
    # Times of the last answer and the last failure of the default model.
    answered_at: float = 0.0
    failed_at: float = 0.0
    _in_row: Counter[str] = field(default_factory=Counter)
    _models: dict[str, UsageTotals] = field(default_factory=dict)

    def charge(self, charge: Charge) -> None:
        """Count a reply of a model."""
        self._models[charge.model] = self._models.get(charge.model, UsageTotals()).plus(charge)

    def end(
        self,
        message: InboundMessage,
        model: str,
        ending: Ending,
        spent: UsageTotals,
        elapsed_s: float,
    ) -> ModelFailure | None:
        """Log and count a turn. Return its failure, if it failed."""
        self.turns += 1
        self.seconds += elapsed_s
        if ending.error is not None:
            return self._fail(message, model, ending.error, elapsed_s)
        if self._in_row:
            self._in_row.pop(model, None)
        if not model:
            self.answered_at = self.clock()
        log.info(
            "%s: %s in %.1f s, %d %s, %s tokens",
            _where(message),
            f"ended early ({ending.stopped})" if ending.stopped else "answered",
            elapsed_s,
            spent.calls,
            "call" if spent.calls == 1 else "calls",
            f"{spent.usage.input + spent.usage.output:,}",
        )
        return None

    def give_up(self, message: InboundMessage, reason: str) -> None:
        """Log and count a turn that could not be run."""
        self.turns += 1
        self.failed["given-up"] += 1
        where = _where(message)
        self.last_failure = ModelFailure(self.clock(), where, "", "given-up", reason, 0)
        log.warning("%s: given up: %s (given-up)", where, reason)

    def facts(self) -> dict[str, Any]:
        """Return the counters as JSON values, also for other processes."""
        last = self.last_failure
        return {
            "turns": self.turns,
            "seconds": round(self.seconds, 3),
            "failed": dict(self.failed),
            "models": {
                model: [spent.calls, *_tokens(spent), spent.cost_nusd]
                for model, spent in self._models.items()
            },
            "last": None if last is None else [last.at, last.where, last.code, last.reason],
            "in_row": self._in_row[""],
            "answered_at": self.answered_at,
            "failed_at": self.failed_at,
        }

    def _fail(
        self, message: InboundMessage, model: str, error: Error, elapsed_s: float
    ) -> ModelFailure:
        code, reason = error.code, error.message
        self.failed[code] += 1
        if code not in _ABOUT_THE_MESSAGE and not code.endswith("guardrail"):
            self._in_row[model] += 1
            if not model:
                self.failed_at = self.clock()
        where = _where(message)
        failure = ModelFailure(self.clock(), where, model, code, reason, self._in_row[model])
        self.last_failure = failure
        log.warning("%s: no answer after %.1f s: %s (%s)", where, elapsed_s, reason, code)
        return failure


def failure_facts(logs: Sequence[Mapping[str, Any]], model: str) -> dict[str, Any]:
    """Return the merged facts of several processes for `kore status`.

    `model` is the name of the default model.
    """
    last = max((mapping["last"] for mapping in logs if mapping["last"]), default=None)
    answered_at = max(mapping["answered_at"] for mapping in logs)
    is_failing = any(
        mapping["in_row"] >= MAX_FAILURES_IN_ROW and mapping["failed_at"] > answered_at
        for mapping in logs
    )
    return {
        "turns_failed": sum(sum(mapping["failed"].values()) for mapping in logs) or None,
        "last_failure_at": last and last[0],
        "last_failure_reason": last and f"{last[1]}: {last[3]} ({last[2]})",
        "failing_model": model if is_failing else None,
    }


def metric_lines(logs: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """Yield the counters in the text format of Prometheus.

    `logs` maps the label of a process, such as `worker="3"`, to its counters; this process has an
    empty label.
    """

    def lines(name: str, kind: str, rows: Iterator[tuple[str, float]]) -> Iterator[str]:
        yield f"# TYPE kore_{name} {kind}"
        for labels, value in rows:
            yield f"kore_{name}{{{labels}}} {value}" if labels else f"kore_{name} {value}"

    def of_models(column: int, scale: int = 1) -> Iterator[tuple[str, float]]:
        for label, item in logs.items():
            for model, numbers in item["models"].items():
                yield _labels(label, model=model), numbers[column] / scale

    yield "# TYPE kore_turn_seconds summary"
    for label, item in logs.items():
        labels = f"{{{label}}}" if label else ""
        yield f"kore_turn_seconds_sum{labels} {item['seconds']}"
        yield f"kore_turn_seconds_count{labels} {item['turns']}"
    failed = (
        (_labels(label, code=code), count)
        for label, item in logs.items()
        for code, count in item["failed"].items()
    )
    yield from lines("turns_failed_total", "counter", failed)
    for column, name in enumerate(("calls", "input_tokens", "output_tokens", "cached_tokens")):
        yield from lines(f"model_{name}_total", "counter", of_models(column))
    yield from lines("model_cost_usd_total", "counter", of_models(4, NUSD_PER_USD))


def _labels(label: str, **more: str) -> str:
    escaped = (
        '{}="{}"'.format(name, value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " "))
        for name, value in more.items()
    )
    return ",".join(filter(None, [*escaped, label]))


def _tokens(spent: UsageTotals) -> tuple[int, int, int]:
    return spent.usage.input, spent.usage.output, spent.usage.cached


def _where(message: InboundMessage) -> str:
    return f"{message.channel}:{message.account} chat {message.chat_id}"
