"""Checks of a case, with a sentence for each unmet expectation."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from agent.errors import ToolError
from agent.security.sandbox.base import Sandbox, SandboxCommand
from agent.tools.shell.process_group import run
from agent.types import Usage
from gateway.ops.evals.case import EvalCase, Expectation

COMMAND_TIMEOUT_S = 60
_MAX_QUOTED_CHARS = 200


@dataclass(slots=True)
class EvalOutcome:
    """Result of running a case.

    `calls` counts the tools that ran, `steps` the replies of the model; `error` ended a turn;
    `sandbox` confines the commands of checks.
    """

    folder: Path
    sandbox: Sandbox
    answer: str = ""
    calls: dict[str, int] = field(default_factory=dict)
    steps: int = 0
    usage: Usage = field(default_factory=Usage)
    cost_usd: float | None = 0.0
    error: str | None = None


async def failures(case: EvalCase, outcome: EvalOutcome) -> list[str]:
    """Return the expectations that are not met; empty if the case has passed."""
    if outcome.error:
        return [f"the turn ended with an error: {outcome.error}"]
    faults: list[str] = []
    for check in case.checks:
        if check.command is not None:
            faults += await _command(check.command, check.exit_code, outcome)
        else:
            faults += _faults(check, outcome, case.before)
    return faults


def _faults(check: Expectation, outcome: EvalOutcome, before: Mapping[str, bytes]) -> Iterator[str]:
    if check.file is not None:
        yield from _file(check, check.file, outcome.folder, before)
    elif check.tool is not None:
        count = outcome.calls.get(check.tool, 0)
        if count < (check.at_least or 0) or (check.at_most is not None and count > check.at_most):
            yield f"{check.tool} was called {count} times"
    elif check.answer_contains is not None:
        if check.answer_contains.casefold() not in outcome.answer.casefold():
            yield f"the answer lacks {check.answer_contains!r}: {_quote(outcome.answer)}"
    elif check.answer_matches is not None:
        if not re.search(check.answer_matches, outcome.answer):
            yield f"the answer does not match {check.answer_matches!r}: {_quote(outcome.answer)}"
    elif check.max_tokens is not None:
        if (used_tokens := outcome.usage.input + outcome.usage.output) > check.max_tokens:
            yield f"it took {used_tokens:,} tokens, at most {check.max_tokens:,} were expected"
    elif check.max_cost_usd is not None and (outcome.cost_usd or 0) > check.max_cost_usd:
        yield f"it cost ${outcome.cost_usd:.4f}, at most ${check.max_cost_usd} was expected"


def _file(
    check: Expectation, name: str, folder: Path, before: Mapping[str, bytes]
) -> Iterator[str]:
    path = folder / name
    if check.absent:
        if path.exists():
            yield f"{name} is there and should not be"
        return
    try:
        text = path.read_bytes().decode("utf-8")
    except FileNotFoundError:
        yield f"{name} is not there"
        return
    except (OSError, UnicodeDecodeError) as exc:
        yield f"{name} cannot be read as text: {exc}"
        return
    expected = before[name].decode() if check.unchanged else check.equals
    if expected is not None and text != expected:
        yield f"{name} holds {_quote(text)}, expected {_quote(expected)}"
    if check.contains is not None and check.contains not in text:
        yield f"{name} lacks {check.contains!r}: {_quote(text)}"
    if check.matches is not None and not re.search(check.matches, text, re.MULTILINE):
        yield f"{name} does not match {check.matches!r}: {_quote(text)}"


async def _command(command: str, expected: int, outcome: EvalOutcome) -> list[str]:
    """Run a check's command in the sandbox of the model's commands, because it runs the model's
    code.
    """
    output = bytearray()
    job = SandboxCommand(command, outcome.folder, outcome.folder)
    try:
        with outcome.sandbox.prepare(job) as spawn:
            ended = await run(spawn, COMMAND_TIMEOUT_S, output.extend)
    except (OSError, ToolError) as exc:
        return [f"`{command}` could not be run: {exc}"]
    if ended.code == expected:
        return []
    if ended.code is None:
        return [f"`{command}` took longer than {COMMAND_TIMEOUT_S} s"]
    return [f"`{command}` ended with {ended.code}: {_quote(output.decode(errors='replace'))}"]


def _quote(text: str) -> str:
    short = text if len(text) <= _MAX_QUOTED_CHARS else text[:_MAX_QUOTED_CHARS] + "…"
    return repr(short)
