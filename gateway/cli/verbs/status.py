"""Command `kore status` for the running service."""

import argparse
import asyncio
import sys
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from agent.i18n import mark_for_translation, t
from gateway.cli.folders import data_dir_of
from gateway.cli.output import clean, moment, print_json, print_table
from gateway.control.client import ControlClient

_WORKER_STATES = {
    "starting": mark_for_translation("starting"),
    "waiting": mark_for_translation("waiting for a gateway"),
    "taking turns": mark_for_translation("taking turns"),
    "draining": mark_for_translation("draining"),
    "ended": mark_for_translation("ended"),
}


def run(args: argparse.Namespace) -> int:
    facts = asyncio.run(_status_facts(args))
    if args.json:
        print_json(facts)
    else:
        workers = facts.pop("workers", None)
        print_table(("name", "value"), _fact_rows(facts))
        if args.all and facts["running"]:
            _print_workers(workers)
        if not facts["running"]:
            print(t("start it with `kore gateway`; `kore agent` works without it"), file=sys.stderr)
    return 0


async def _status_facts(args: argparse.Namespace) -> dict[str, Any]:

    # Do not load the settings: an invalid file must not hide the status.
    home = data_dir_of(args)
    service = await ControlClient.connect(home.socket)
    if service is None:
        return {"running": False, "home": str(home.root)}
    return {"running": True, "home": str(home.root), **await service.status()}


def _fact_rows(facts: Mapping[str, Any], prefix: str = "") -> list[tuple[str, str]]:
    rows: list[tuple[str, str]] = []
    for name, value in facts.items():
        if isinstance(value, Mapping):
            rows += _fact_rows(value, f"{prefix}{name} ".replace("_", " "))
        elif isinstance(value, list):
            rows += [(prefix + name, clean(f"{item['chat']}: {item['reason']}")) for item in value]
        elif value is not None:
            label = name.removesuffix("_at").removesuffix("_s").replace("_", " ")
            rows.append((prefix + label, _fact_text(name, value)))
    return rows


def _fact_text(name: str, value: Any) -> str:
    """Format a value according to the unit in its name."""
    if isinstance(value, bool):
        return t("yes") if value else t("no")
    if name.endswith("_at"):
        return moment(value)
    if name.endswith("_s"):
        return str(timedelta(seconds=value))
    if name == "model_hint":
        # The full text is shown at the start of a conversation.
        value = t(str(value)).partition(". ")[0].partition("。")[0]
    return clean(str(value))


def _print_workers(workers: Mapping[str, Any] | None) -> None:
    if workers is None:
        print(t("no workers: this process runs all turns (`kore gateway --workers N`)"))
        return
    print_table(("name", "value"), _fact_rows(_lag_facts(workers)))
    processes = [*workers["alive"], *workers["ended"]]
    if not processes:
        print(t("no worker is running: messages wait until one is (`kore worker`)"))
        return
    header = ("worker", "name", "version", "since", "state", "seen", "turns", "room", "handled")
    print_table(header, [_worker_row(process) for process in processes])


def _lag_facts(workers: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "workers": len(workers["alive"]),
        "workers_reaped": workers["reaped"],
        "lanes_waiting": workers["lanes_waiting"],
        "oldest_waiting_s": round(workers["oldest_waiting_s"]),
        "lanes_with_mail": workers["lanes_with_mail"],
        "hints_dropped": workers["hints_dropped"],
        "lease_s": workers["lease_s"],
    }


def _worker_row(worker: Mapping[str, Any]) -> tuple[str, ...]:
    numbers = (worker["turns"], worker["room"], worker["handled"])
    return (
        str(worker["number"]),
        clean(worker["name"]),
        clean(worker["version"] or "-"),
        moment(worker["began_at"]),
        t(_WORKER_STATES.get(worker["state"], "?")),
        t("{s:.0f} s ago", s=worker["seen_s"]),
        *(
            "-" if number is None or worker["state"] == "ended" else str(number)
            for number in numbers[:2]
        ),
        "-" if numbers[2] is None else str(numbers[2]),
    )
