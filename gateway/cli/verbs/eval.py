"""Command `kore eval`: run evaluation cases with a model or a script."""

import argparse
import asyncio
from collections import defaultdict
from dataclasses import asdict
from pathlib import Path
from typing import Any

from agent.text.display_width import padded
from gateway.cli.folders import data_dir_of
from gateway.cli.output import clean, print_json
from gateway.cli.settings import settings_of
from gateway.ops.evals.case import load_cases
from gateway.ops.evals.runner import EvalRunner, Verdict


def run(args: argparse.Namespace) -> int:
    """Return 0 if every run of every case passed, else 1. Raises `ConfigError`."""
    subject, verdicts = asyncio.run(_verdicts(args))
    if args.json:
        print_json(
            {
                "with": subject,
                "passed": sum(verdict.passed for verdict in verdicts),
                "skipped": sum(verdict.skipped is not None for verdict in verdicts),
                "totals": _totals(verdicts),
                "runs": [{**asdict(verdict), "passed": verdict.passed} for verdict in verdicts],
            }
        )
    else:
        print(_summary(verdicts))
    return 0 if all(not verdict.faults for verdict in verdicts) else 1


async def _verdicts(args: argparse.Namespace) -> tuple[str, list[Verdict]]:
    cases = [*load_cases(args.places or [Path("evals")])] * args.repeat
    home = data_dir_of(args)
    home.ensure()
    runner = EvalRunner(settings_of(args), home, args.model, args.scripted)
    subject = await runner.subject()
    if not args.json:
        runs = "1 run" if len(cases) == 1 else f"{len(cases)} runs"
        print(f"{runs} with {subject}", flush=True)

    def show(verdict: Verdict) -> None:
        if not args.json:
            _show(verdict, args)

    return subject, await runner.run(cases, show, args.parallel)


def _show(verdict: Verdict, args: argparse.Namespace) -> None:
    name = padded(verdict.case, 28)
    if verdict.skipped:
        print(f"skip  {name}{clean(verdict.skipped)}", flush=True)
        return
    mark = "pass" if verdict.passed else "FAIL"
    print(f"{mark}  {name}{_usage_text([verdict])}", flush=True)
    for fault in verdict.faults:
        print(f"      {clean(args.crash.redactor.clean(fault))}", flush=True)


def _summary(verdicts: list[Verdict]) -> str:
    runs: dict[str, list[Verdict]] = defaultdict(list)
    kinds: dict[str, list[Verdict]] = defaultdict(list)
    completed = [verdict for verdict in verdicts if verdict.skipped is None]
    for verdict in completed:
        runs[verdict.case].append(verdict)
        kinds[verdict.kind or "other"].append(verdict)
    table = [
        f"{padded(kind, 10)}{sum(verdict.passed for verdict in group):>4} of {len(group):<4}"
        f"{' ' * 14}{_usage_text(group)}"
        for kind, group in sorted(kinds.items())
        if len(kinds) > 1
    ]
    stable = sum(all(verdict.passed for verdict in results) for results in runs.values())
    text = f"{stable} of {len(runs)} cases passed"
    if len(completed) > len(runs):
        text += (
            f" every time, {sum(verdict.passed for verdict in completed)} of {len(completed)} runs"
        )
    if skipped := len(verdicts) - len(completed):
        text += f", {skipped} skipped"
    return "\n".join([*table, f"{text}; {_totals(completed)['tokens']:,} tokens"])


def _usage_text(verdicts: list[Verdict]) -> str:
    totals = _totals(verdicts)
    cost = "" if totals["cost_usd"] is None else f"  ${totals['cost_usd']:.4f}"
    steps = "1 step " if totals["steps"] == 1 else f"{totals['steps']} steps"
    return f"{steps:>10}{totals['seconds']:>8.1f} s{totals['tokens']:>10,} tokens{cost}"


def _totals(verdicts: list[Verdict]) -> dict[str, Any]:
    """Return the totals of all runs; the cost is None if the cost of a run is unknown."""
    costs = [verdict.cost_usd for verdict in verdicts]
    return {
        "steps": sum(verdict.steps for verdict in verdicts),
        "seconds": sum(verdict.seconds for verdict in verdicts),
        "tokens": sum(verdict.usage.input + verdict.usage.output for verdict in verdicts),
        "cost_usd": None if None in costs else sum(cost for cost in costs if cost is not None),
    }
