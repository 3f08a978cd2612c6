"""Conversion of `kore agent --output-format stream-json` to an ATIF 1.7 trajectory.

    python -m kore_harbor.trajectory kore.jsonl > trajectory.json

A truncated stream is valid input: the trajectory contains the events up to that point.
"""

import json
import sys
from collections.abc import Iterable, Mapping
from typing import Any

SCHEMA_VERSION = "ATIF-v1.7"


def read_events(lines: Iterable[str]) -> list[dict[str, Any]]:
    """Return the events in the lines; a truncated line is left out."""
    events = []
    for line in lines:
        try:
            event = json.loads(line)
        except ValueError:
            continue
        if isinstance(event, dict) and isinstance(event.get("type"), str):
            events.append(event)
    return events


def to_trajectory(
    events: Iterable[Mapping[str, Any]],
    instruction: str,
    version: str = "unknown",
    model: str | None = None,
) -> dict[str, Any]:
    """Return the trajectory of one run: the request, each reply with its calls, and the totals."""
    steps = _Steps(instruction)
    for event in events:
        steps.add(event)
    return steps.trajectory({"name": "kore", "version": version}, model)


class _Steps:
    """Steps under construction; the last is open until the model is called again."""

    def __init__(self, instruction: str) -> None:
        self.session: str | None = None
        self.model: str | None = None
        self._steps: list[dict[str, Any]] = [{"source": "user", "message": instruction}]
        self._reply: _Reply | None = None
        self._usage: Mapping[str, Any] = {}
        self._cost: float | None = 0.0
        self._result: Mapping[str, Any] = {}
        self._agents: dict[str, _Steps] = {}

    def add(self, event: Mapping[str, Any]) -> None:
        kind = event["type"]
        if kind in ("session_start", "session_created"):
            self.session = event.get("session_id", self.session)
            self.model = event.get("model", self.model)
        elif kind == "iteration_start":
            self._close()
            self._reply = _Reply()
        elif kind == "retry":
            self._reply = _Reply()
        elif kind == "usage":
            self._use(event)
        elif kind == "from_agent":
            self._of_agent(event)
        elif kind == "done":
            self._result = event.get("result") or {}
        elif (step := _told(event)) is not None:
            self._close()
            self._steps.append(step)
        else:
            if self._reply is None and kind in ("tool_start", "tool_result", "text_delta"):
                self._reply = _Reply()
            if self._reply is not None:
                self._reply.add(event)

    def trajectory(self, agent: Mapping[str, Any], model: str | None) -> dict[str, Any]:
        self._close()
        name = model or self.model
        document: dict[str, Any] = {
            "schema_version": SCHEMA_VERSION,
            "agent": {**agent, "model_name": name} if name else dict(agent),
            "steps": [{"step_id": n, **step} for n, step in enumerate(self._steps, 1)],
            "final_metrics": self._totals(),
        }
        if self.session:
            document["session_id"] = self.session
        others = []
        for title, steps in self._agents.items():
            part = steps.trajectory({**agent, "extra": {"agent": title}}, None)
            others.append({**part, "trajectory_id": title})
        if others:
            document["subagent_trajectories"] = others
        ending = {key: self._result[key] for key in _ENDING if self._result.get(key) is not None}
        if ending:
            document["extra"] = ending
        return document

    def _close(self) -> None:
        """Close the open reply: its calls and results are complete."""
        reply, self._reply = self._reply, None
        if reply is not None and (step := reply.step()):
            self._steps.append(step)

    def _use(self, event: Mapping[str, Any]) -> None:
        """Set the open step's metrics: the increase, as events count from the turn's start."""
        usage, cost = event.get("usage") or {}, event.get("cost_usd")
        metrics = {
            name: max(0, int(usage.get(key) or 0) - int(self._usage.get(key) or 0))
            for name, key in _METRICS
        }
        if cost is not None and self._cost is not None:
            metrics["cost_usd"] = max(0.0, cost - self._cost)
        self._usage, self._cost = usage, cost
        if self._reply is not None:
            self._reply.metrics = metrics

    def _of_agent(self, event: Mapping[str, Any]) -> None:
        inner = event.get("event")
        if not isinstance(inner, Mapping) or "type" not in inner:
            return
        title = f"{event.get('agent')}-{event.get('number')}"
        steps = self._agents.setdefault(title, _Steps(str(event.get("title") or "")))
        steps.add(inner)

    def _totals(self) -> dict[str, Any]:
        usage = self._result.get("usage") or self._usage
        totals = {f"total_{name}": int(usage.get(key) or 0) for name, key in _METRICS}
        cost = self._result.get("cost_usd") if self._result else self._cost
        if cost is not None:
            totals["total_cost_usd"] = cost
        return {**totals, "total_steps": len(self._steps)}


class _Reply:
    """A reply of the model with the calls that it requested and their results."""

    def __init__(self) -> None:
        self.metrics: dict[str, Any] | None = None
        self._text = ""
        self._thinking: list[str] = []
        self._calls: dict[str, dict[str, Any]] = {}
        self._partial: dict[str, str] = {}
        self._results: list[dict[str, Any]] = []

    def add(self, event: Mapping[str, Any]) -> None:
        kind = event["type"]
        if kind == "text_delta":
            self._text += event["text"]
        elif kind == "thinking_end":
            self._thinking.append(event["thinking"])
        elif kind == "tool_call_delta":
            self._call(event["id"], event.get("name") or "")
            text = self._partial.get(event["id"], "") + (event.get("partial_json") or "")
            self._partial[event["id"]] = text
        elif kind == "tool_start":
            call = self._call(event["id"], event["name"])
            call["function_name"] = event["name"]
            call["arguments"] = dict(event["arguments"])
            self._partial.pop(event["id"], None)
        elif kind == "tool_result":
            self._call(event["id"], event["name"])
            extra = {key: event[key] for key in ("is_error", "elapsed_s") if key in event}
            result = {"source_call_id": event["id"], "content": event["content"], "extra": extra}
            self._results.append(result)

    def step(self) -> dict[str, Any] | None:
        """Return the step, or None when the model was called without any result."""
        for number, text in self._partial.items():
            self._calls[number]["arguments"] = _arguments(text)
        calls = [call for call in self._calls.values() if call["function_name"]]
        if not (self._text or self._thinking or calls or self.metrics):
            return None
        step: dict[str, Any] = {
            "source": "agent",
            "message": self._text.strip(),
            "llm_call_count": 1,
        }
        if self._thinking:
            step["reasoning_content"] = "\n".join(self._thinking)
        if calls:
            step["tool_calls"] = calls
        if self._results:
            # Concurrent calls end in any order.
            order = list(self._calls)
            self._results.sort(key=lambda result: order.index(result["source_call_id"]))
            step["observation"] = {"results": self._results}
        if self.metrics is not None:
            step["metrics"] = self.metrics
        return step

    def _call(self, number: str, name: str) -> dict[str, Any]:
        call = self._calls.setdefault(
            number, {"tool_call_id": number, "function_name": name, "arguments": {}}
        )
        call["function_name"] = call["function_name"] or name
        return call


def _told(event: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return a separate step for a steering message, a compaction or an error."""
    kind = event["type"]
    if kind == "steered":
        return {"source": "user", "message": event["text"]}
    if kind == "compacted":
        message = (
            f"Context compacted: {event.get('dropped')} messages removed,"
            f" {event.get('summarised')} summarised."
        )
        return {"source": "system", "message": message}
    if kind == "error":
        return {"source": "system", "message": f"{event.get('code')}: {event.get('message')}"}
    return None


def _arguments(text: str) -> dict[str, Any]:
    try:
        arguments = json.loads(text or "{}")
    except ValueError:
        return {}
    return arguments if isinstance(arguments, dict) else {}


_METRICS = (
    ("prompt_tokens", "input"),
    ("completion_tokens", "output"),
    ("cached_tokens", "cached"),
)
_ENDING = ("success", "stopped", "signal", "error_code")


if __name__ == "__main__":
    with open(sys.argv[1], encoding="utf-8") as file:
        print(json.dumps(to_trajectory(read_events(file), " ".join(sys.argv[2:])), indent=1))
