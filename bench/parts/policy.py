"""Benchmark of one policy decision, including the command parser in its own process."""

import shlex
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from agent.security.policy.base import ToolRequest
from agent.security.policy.engine import PrincipalContext, RolePolicy
from agent.security.policy.policy_file import built_in_roles
from bench.figure import Figure, sampled
from bench.process import ROOT

LINES = ROOT / "tests" / "agent" / "security" / "shell" / "harmless_commands.txt"
ROUNDS = 21


async def measure(command: Sequence[str]) -> list[Figure]:
    lines = LINES.read_text(encoding="utf-8").splitlines()
    policy = RolePolicy(
        PrincipalContext(built_in_roles()["build"], "accept-edits", is_confined=True)
    )
    requests = [_request(line, ROOT.resolve()) for line in lines]
    first_ms = _ms(lambda: policy.decide(requests[0]))
    allowed = sum(policy.decide(request).verdict == "allow" for request in requests)
    decided, bare = [], []
    # Alternate, so that machine load affects both.
    for _ in range(ROUNDS):
        decided += [_ms(lambda r=request: policy.decide(r)) for request in requests]  # type: ignore[misc]
        bare += [_ms(lambda text=line: shlex.split(text)) for line in lines]  # type: ignore[misc]
    split_ms = sorted(bare)[len(bare) // 2]
    note = "the bare figure is `shlex.split` of the same lines"
    share = 100 * allowed / len(lines)
    return [
        Figure("the first decision, with the start of the parser", "ms", first_ms, goal=100),
        sampled("a decision about a command", "ms", decided, bare=split_ms, goal=0.2, note=note),
        Figure("harmless commands without a question", "%", share, goal=90, at_least=True),
    ]


def _request(line: str, folder: Path) -> ToolRequest:
    return ToolRequest("exec", "unsafe", {"command": line}, folder, command=line, folder=folder)


def _ms(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return (time.perf_counter() - began) * 1000
