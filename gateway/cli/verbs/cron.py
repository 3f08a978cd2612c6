"""Command `kore cron`: scheduled jobs (list, add, change, run now)."""

import argparse
import asyncio
import uuid
from collections.abc import Mapping
from typing import Any

from agent.i18n import mark_for_translation, t
from gateway.cli.output import moment, print_json, print_table
from gateway.cli.service_link import service_of
from gateway.core.records import NewJob

_KINDS = {
    "reminder": mark_for_translation("reminder"),
    "prompt": mark_for_translation("task"),
    "heartbeat": mark_for_translation("heartbeat"),
}
_STATES = {
    "paused": mark_for_translation("paused"),
    "failed": mark_for_translation("disabled"),
    "done": mark_for_translation("done"),
}


def run(args: argparse.Namespace) -> int:
    """Run the action and return 0. Raises `KoreError` on failure."""
    asyncio.run(_run(args))
    return 0


async def _run(args: argparse.Namespace) -> None:
    async with service_of(args) as service:
        if args.action == "list":
            _list(await service.list_jobs(), as_json=args.json)
            return
        if args.action == "add":
            job = NewJob(
                key=uuid.uuid4().hex,
                when=args.when,
                text=args.text,
                is_task=args.ask,
                urgent=args.urgent,
                own=args.own,
                zone=args.zone,
                catch_up=args.catch_up,
            )
            answer = await service.add_job(job)
        else:
            answer = await service.change_job(args.number, args.action)
        if args.json:
            print_json({"said": answer})
        else:
            print(answer)


def _list(jobs: list[Mapping[str, Any]] | Any, *, as_json: bool) -> None:
    if as_json:
        print_json(jobs)
        return
    if not jobs:
        print(t("There are no jobs."))
        return
    rows = [
        (
            str(job["id"]),
            t(_KINDS[job["kind"]]),
            job["title"],
            job["rule_in_words"],
            moment(job["next_at"]) if job["next_at"] else _state(job),
            job["last"] or "",
            job["lane"],
        )
        for job in jobs
    ]
    print_table(("id", "kind", "title", "rule", "next", "last", "chat"), rows)


def _state(job: Mapping[str, Any]) -> str:
    """Return the reason why there is no next run."""
    text = t(_STATES.get(job["state"], job["state"]))
    return f"{text}: {job['reason']}" if job["reason"] else text
