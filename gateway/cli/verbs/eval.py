"""`kore eval`: does the agent, with this model, do what the cases ask for?"""

import argparse
import asyncio
from collections import defaultdict
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from agent.text.display_width import padded
from gateway.cli.context import data_dir_of, positive_count, settings_of
from gateway.cli.output import clean, print_json

if TYPE_CHECKING:
    from gateway.ops.evals.runner import Verdict


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("places", nargs="*", type=Path, metavar="FILE|FOLDER", help="cases (default: ./evals)")
    add("--model", metavar="NAME", help="model to evaluate (default: the configured one)")
    add("--scripted", action="store_true", help="no model: replay each case's script")
    add("--repeat", type=positive_count, default=1, metavar="N", help="run each case N times")
    add(
        "-j",
        "--parallel",
        type=positive_count,
        default=1,
        metavar="N",
        help="number of parallel cases",
    )
    add("--json", action="store_true", help="print JSON")


def run(args: argparse.Namespace) -> int:
    """0 when every run of every case has passed, else 1. Raises `ConfigError`."""
    subject, verdicts = asyncio.run(_verdicts(args))
    if args.json:
        print_json(
            {
                "with": subject,
                "passed": sum(verdict.passed for verdict in verdicts),
                "runs": [{**asdict(verdict), "passed": verdict.passed} for verdict in verdicts],
            }
        )
    else:
        print(_summary(verdicts))
    return 0 if all(verdict.passed for verdict in verdicts) else 1


async def _verdicts(args: argparse.Namespace) -> "tuple[str, list[Verdict]]":
    from gateway.ops.evals.case import load_cases
    from gateway.ops.evals.runner import EvalRunner

    cases = [*load_cases(args.places or [Path("evals")])] * args.repeat
    home = data_dir_of(args)
    home.ensure()
    runner = EvalRunner(settings_of(args), home, args.model, args.scripted)
    subject = await runner.subject()
    if not args.json:
        runs = "1 run" if len(cases) == 1 else f"{len(cases)} runs"
        print(f"{runs} with {subject}", flush=True)

    def show(verdict: "Verdict") -> None:
        if not args.json:
            _show(verdict, args)

    return subject, await runner.run(cases, show, args.parallel)


def _show(verdict: "Verdict", args: argparse.Namespace) -> None:
    usage = verdict.usage
    mark = "pass" if verdict.passed else "FAIL"
    cost = "" if verdict.cost_usd is None else f"  ${verdict.cost_usd:.4f}"
    tokens = f"{usage.input + usage.output:>8,} tokens"
    print(f"{mark}  {padded(verdict.case, 28)}{verdict.seconds:>6.1f} s{tokens}{cost}", flush=True)
    for fault in verdict.faults:
        print(f"      {clean(args.crash.redactor.clean(fault))}", flush=True)


def _summary(verdicts: "list[Verdict]") -> str:
    runs: dict[str, list[bool]] = defaultdict(list)
    for verdict in verdicts:
        runs[verdict.case].append(verdict.passed)
    steady = sum(all(results) for results in runs.values())
    tokens = sum(verdict.usage.input + verdict.usage.output for verdict in verdicts)
    text = f"{steady} of {len(runs)} cases passed"
    if len(verdicts) > len(runs):
        results = sum(verdict.passed for verdict in verdicts)
        text += f" every time, {results} of {len(verdicts)} runs"
    return f"{text}; {tokens:,} tokens"
