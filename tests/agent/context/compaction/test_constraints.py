"""Twenty constraints in 200 messages: every request after a compaction contains them."""

import re
from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise, takewhile
from pathlib import Path
from typing import Any, ClassVar

import pytest

from agent import events
from agent.agent import Agent
from agent.context.token_budget import budget_for
from agent.providers.base import ModelRequest
from agent.providers.scripted import ScriptedProvider
from agent.providers.token_estimate import estimate
from agent.run.history import JsonlHistory
from agent.tools.base import CallContext, EffectPlan
from agent.types import Context, Effect, JsonSchema, Message, Text, ToolCall, ToolResult, assistant
from tests.agent.props import FREE, is_summary_request

ROUNDS = 100
SAID = {
    3: "The service must listen on port 7411.",
    8: "Never touch the folder legacy/, it belongs to another team.",
    13: "All money is kept as integer cents.",
    18: "Use British spelling in every text that people see.",
    23: "日志里不要出现客户的姓名。",
    28: "The release branch is called aurora-9.",
    33: "Only Python 3.11 syntax, our servers have no newer one.",
    38: "No new dependency without asking Ines first.",
    43: "Dates are written like 2031-07-04 everywhere.",
    48: "The nightly job must end before 04:30 UTC.",
    53: "Keep the old endpoint /v1/quote until March.",
    58: "Errors go to the queue named crimson.",
    63: "Tests must not open sockets.",
    68: "The maximum upload is 17 megabytes.",
}
# Only a summary can preserve tool results and replies of the model.
FOUND = {
    5: "MUST: the vendor allows 12 calls a minute",
    25: "MUST: table ledger has the composite key (day, account)",
    45: "MUST: header X-Trace-Origin has to be sent",
}
DECIDED = {
    15: "MUST: retries use 3 attempts with 250 ms between",
    35: "MUST: cache keys begin with kq2",
    55: "MUST: the worker pool has 6 threads",
}
IN_A_LOG = {8, 28, 48, 58}
IN_LONG_PROSE = {13, 33, 43, 68}


class Look:
    """A tool that returns a long text."""

    name: ClassVar[str] = "look"
    effect: ClassVar[Effect] = "read"
    brings: ClassVar[frozenset[Any]] = frozenset()
    description: ClassVar[str] = "Look at a part of the work."
    parameters: ClassVar[JsonSchema] = {
        "type": "object",
        "properties": {"n": {"type": "integer"}},
        "required": ["n"],
    }

    def __init__(self, lines: int) -> None:
        self._lines = lines

    async def plan(self, args: Mapping[str, Any], call: CallContext) -> EffectPlan:
        return EffectPlan()

    async def run(self, args: Mapping[str, Any], call: CallContext) -> ToolResult:
        n = int(args["n"])
        lines = [f"row {n}.{k}: value {k * 7919 % 1000} of a table" for k in range(self._lines)]
        if n in FOUND:
            lines.insert(len(lines) // 2, FOUND[n])
        return ToolResult("\n".join(lines))


def question(n: int) -> str:
    text = SAID.get(n, "")
    if n in IN_A_LOG:
        log = "\n".join(f"12:{k % 60:02d} worker {k} wrote block {k * 31}" for k in range(90))
        return f"This is what it printed:\n{log}\n\n{text}\n\nand the rest of it:\n{log}"
    if n in IN_LONG_PROSE:
        story = " ".join(f"Then we talked about part {n}.{k} of the plan." for k in range(18))
        return f"{story} {text} {story}"
    return f"Step {n}, please. {text}".strip()


class Worker(ScriptedProvider):
    """A model that calls `look` once per round and then answers.

    Its summaries contain every visible MUST line, or none if `forgetful` is set.
    """

    def __init__(self, forgetful: bool) -> None:
        super().__init__([self._reply] * 1_000)
        self.forgetful = forgetful
        self.summaries = 0

    def _reply(self, request: ModelRequest) -> Message | str:
        last = request.messages[-1]
        if is_summary_request(request):
            self.summaries += 1
            lines = re.findall(r"MUST: [^\n\"\\]+", text_of_request(request))
            seen = [] if self.forgetful else list(dict.fromkeys(lines))
            return "\n".join(["They worked on it step by step.", *seen])
        result = next(message for message in reversed(request.messages) if message.role == "user")
        number = int(re.findall(r"<round (\d+)>", text_of_message(result))[-1])
        if last.role == "user":
            call = ToolCall(f"c{number}", "look", {"n": number}, f'{{"n": {number}}}')
            return assistant("", (call,))
        return f"Done with {number}. {DECIDED.get(number, '')} " + "It went well. " * 20


def text_of_message(message: Message) -> str:
    return "\n".join(p.text for p in message.content if isinstance(p, Text | Context))


def text_of_request(request: ModelRequest) -> str:
    return "\n".join(map(text_of_message, request.messages))


def cached_tokens(requests: list[ModelRequest]) -> list[tuple[int, int]]:
    """Return the total and cached tokens of each summary request.

    The cached part is the prefix that it shares with the request before it.
    """
    counts: list[tuple[int, int]] = []
    for before, request in pairwise(requests):
        if not is_summary_request(request):
            continue
        assert (request.system, request.tools) == (before.system, before.tools)
        assert request.options == before.options
        sizes = [estimate(message) for message in request.messages]
        pairs = zip(before.messages, request.messages, strict=False)
        same = takewhile(lambda pair: pair[0] == pair[1], pairs)
        fixed = budget_for(1, request.system, request.tools).fixed
        counts.append((fixed + sum(sizes), fixed + sum(sizes[: len(list(same))])))
    return counts


def constraints_before(n: int, *tables: dict[int, str]) -> list[str]:
    return [text for table in tables for at, text in table.items() if at < n]


@pytest.mark.parametrize(
    ("window", "lines", "forgetful"),
    [
        (24_000, 40, True),
        (24_000, 40, False),
        pytest.param(128_000, 450, True, marks=pytest.mark.slow),
        pytest.param(128_000, 450, False, marks=pytest.mark.slow),
    ],
)
async def test_no_constraint_is_lost_over_several_compactions(
    window: int, lines: int, forgetful: bool, tmp_path: Path
) -> None:
    model = Worker(forgetful)
    history = JsonlHistory(tmp_path / "history")
    (tmp_path / "work").mkdir()
    agent = Agent(
        model,
        tools=[Look(lines)],
        history=history,
        approve=FREE,
        workspace=tmp_path / "work",
    )
    pool = agent.models
    pool._open[model.name] = replace(pool.open(), context_tokens=window)
    tables = (SAID,) if forgetful else (SAID, FOUND, DECIDED)
    compactions = 0
    for n in range(ROUNDS):
        before = len(model.requests)
        async for event in agent.stream(f"{question(n)}\n<round {n}>", session="s"):
            compactions += isinstance(event, events.Compacted)
            assert not (isinstance(event, events.Compacted) and event.dropped)
        for request in model.requests[before:]:
            if not is_summary_request(request):
                text = text_of_request(request)
                assert [item for item in constraints_before(n, *tables) if item not in text] == []
    assert model.summaries == compactions >= 3
    for tokens, cached in cached_tokens(model.requests):
        print(f"window {window:,}: {cached:,} of {tokens:,} tokens of a summary's request cached")
        assert cached > tokens * 0.8
    assert len(constraints_before(ROUNDS, SAID, FOUND, DECIDED)) == 20
