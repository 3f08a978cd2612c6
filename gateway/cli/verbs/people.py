"""Commands `kore pair` and `kore user`: access and stored data of people."""

import argparse
import asyncio
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agent.errors import KoreError
from agent.i18n import plural, t
from gateway.cli.output import moment, print_json, print_table, size, skipped_files
from gateway.cli.service_link import service_of
from gateway.control.service import Service


def run_user(args: argparse.Namespace) -> int:
    return asyncio.run(_user(args))


async def _user(args: argparse.Namespace) -> int:
    async with service_of(args) as service:
        data = await service.summarize_person(args.who)
        if not data["found"] and not data["files"]:
            raise KoreError(
                t("no data is stored about {who}", who=args.who),
                hint=t("`kore pair list` shows them"),
            )
        if args.action == "export":
            return await _export_user(args, service)
        if args.action == "delete":
            return await _delete_user(args, service, data)
    _print_user(args, data)
    return 0


async def _export_user(args: argparse.Namespace, service: Service) -> int:
    name = args.output or Path(f"kore-{args.who.replace(':', '-')}.zip")
    target = (Path.cwd() / name.expanduser()).resolve()
    export = await service.export_person(args.who, target)
    if args.json:
        print_json(export)
    else:
        print(f"{export['file']}: {size(export['size_bytes'])}")
        if export["left_out"]:
            print(skipped_files(export["left_out"]))
    return 0


async def _delete_user(args: argparse.Namespace, service: Service, data: Mapping[str, Any]) -> int:
    if not args.yes:
        _print_user(args, data, to=sys.stderr)
        if not sys.stdin.isatty():
            raise KoreError(t("nothing was deleted"), hint=t("use --yes to skip the question"))
        question = t("Delete all of this permanently? Type yes: ")
        print(question, end="", file=sys.stderr, flush=True)
        if (await asyncio.to_thread(sys.stdin.readline)).strip() != "yes":
            raise KoreError(t("nothing was deleted"))
    deleted = await service.delete_person(args.who, args.with_copies)
    if args.json:
        print_json({"deleted": args.who, **deleted})
        return 0
    print(t("Deleted: {found}.", found=_counts_text(deleted)))
    if deleted["left_out"]:
        print(
            plural(
                deleted["left_out"],
                "{n:,} file or folder could not be deleted: check the inbox and memory "
                "folders of the workspace.",
                "{n:,} files or folders could not be deleted: check the inbox and memory "
                "folders of the workspace.",
            )
        )
    for line in _remaining_lines(args.who, deleted):
        print(line)
    return 0


def _print_user(args: argparse.Namespace, data: Mapping[str, Any], to: Any = None) -> None:
    if args.json and to is None:
        print_json(data)
        return
    print(t("{who}: {found}.", who=args.who, found=_counts_text(data)), file=to)
    for line in _remaining_lines(args.who, data):
        print(line, file=to)


def _counts_text(data: Mapping[str, Any]) -> str:
    counts = (
        plural(data["sessions"], "{n:,} conversation", "{n:,} conversations"),
        plural(data["messages"], "{n:,} message in them", "{n:,} messages in them"),
        plural(data["shared_turns"], "{n:,} turn in groups", "{n:,} turns in groups"),
        t("{n:,} received", n=data["inbox"]),
        t("{n:,} sent", n=data["outbox"]),
        plural(data["calls"], "{n:,} model call", "{n:,} model calls"),
        plural(data["jobs"], "{n:,} scheduled job", "{n:,} scheduled jobs"),
        plural(data["api_answers"], "{n:,} answer over the API", "{n:,} answers over the API"),
        plural(
            data["files"],
            "{n:,} file ({size})",
            "{n:,} files ({size})",
            size=size(data["file_bytes"]),
        ),
    )
    return t(", ").join(counts)


def _remaining_lines(person: str, data: Mapping[str, Any]) -> list[str]:
    """Return notes about data that a deletion does not affect."""
    lines = [
        t(
            "Not included: the audit log (kore audit search), your own backups, what "
            "others said about them, and the platform's own copy. Total costs stay "
            "without a name; message numbers stay so that none is reused."
        )
    ]
    if data["copies"]:
        copies = t(", ").join(data["copies"])
        lines.append(
            t(
                "Backups made before upgrades still contain it: {copies} (--with-copies)",
                copies=copies,
            )
        )
    if data["allowed"]:
        lines.append(
            t("{who} is listed in the configuration (allow_from) and can still write.", who=person)
        )
    return lines


def run_pair(args: argparse.Namespace) -> int:
    asyncio.run(_pair(args))
    return 0


async def _pair(args: argparse.Namespace) -> None:
    async with service_of(args) as service:
        if args.action == "approve":
            print(await service.approve_pairing(args.code))
        elif args.action == "revoke":
            print(await service.revoke_pairing(args.id))
        else:
            _list_people(await service.list_people(), as_json=args.json)


def _list_people(people: Mapping[str, Any], *, as_json: bool) -> None:
    if as_json:
        print_json(people)
        return
    if people["owner"] is None:
        print(t("There is no owner yet; the first person approved becomes the owner."))
    rows = [
        (
            person["id"],
            person["account"],
            "pending",
            t("since {moment}", moment=moment(person["asked_at"])),
            person["name"],
        )
        for person in people["asking"]
    ]
    rows += [
        (
            person["id"],
            person["account"],
            "owner" if person["owner"] else "paired",
            t("since {moment}", moment=moment(person["approved_at"])),
            person["name"],
        )
        for person in people["paired"]
    ]
    if rows:
        print_table(("id", "account", "status", "time", "name"), rows)
    else:
        print(t("No paired users and no pending requests."))
