"""`kore sessions`: conversations listed, shown and exported."""

import argparse
import asyncio
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime

from agent.codec import dumps, message_to_json
from agent.errors import KoreError
from agent.types import Message
from gateway.cli.basis import home_of, settings_of, whole
from gateway.cli.link import open_service
from gateway.cli.table import clean_lines, moment, print_json, print_table
from gateway.service import Service, SessionInfo

# Sessions that an export looks through for the one whose facts it states.
_SEARCHED = 10_000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True, metavar="list|show|export")
    listing = actions.add_parser("list", help="the latest sessions")
    listing.add_argument("-n", "--limit", type=whole, default=50, metavar="N", help="at most N")
    show = actions.add_parser("show", help="read one")
    export = actions.add_parser("export", help="one session on stdout, for other programs")
    export.add_argument("--format", choices=("jsonl", "markdown"), default="jsonl")
    for one in (show, export):
        one.add_argument("id", metavar="ID", help="the session, or an unambiguous start of its id")
    for one in (listing, show):
        one.add_argument("--json", action="store_true", help="print JSON")


def run(args: argparse.Namespace) -> int:
    asyncio.run(_run(args))
    return 0


async def _run(args: argparse.Namespace) -> None:
    async with open_service(settings_of(args), home_of(args)) as service:
        if args.action == "list":
            _list(await service.sessions(args.limit), as_json=args.json)
            return
        messages = await service.messages(args.id)
        if args.action == "show":
            _show(await _info(service, args.id), messages, as_json=args.json)
        elif args.format == "markdown":
            print(markdown(messages))
        else:
            await _export(service, args.id, messages)


def _list(sessions: Sequence[SessionInfo], *, as_json: bool) -> None:
    if as_json:
        print_json([asdict(info) for info in sessions])
        return
    rows = [
        (s.id, s.status, str(s.messages), moment(s.last_active_at), s.lane or "", s.name)
        for s in sessions
    ]
    print_table(("id", "status", "messages", "last active", "where", "name"), rows)


def _show(info: SessionInfo, messages: Sequence[Message], *, as_json: bool) -> None:
    if as_json:
        print_json([message_to_json(message) for message in messages])
        return
    if info.taint:
        print(f"> taken in so far: {info.taint.replace(',', ', ')}\n")
    print(clean_lines(markdown(messages)))


async def _info(service: Service, wanted: str) -> SessionInfo:
    found = [s for s in await service.sessions(_SEARCHED) if s.id.startswith(wanted)]
    info = next((s for s in found if s.id == wanted), found[0] if len(found) == 1 else None)
    if info is None:
        raise KoreError(f"there is no single session that starts with {wanted!r}")
    return info


async def _export(service: Service, wanted: str, messages: Sequence[Message]) -> None:
    """JSON lines: one with the session's own facts, then its messages."""
    info = await _info(service, wanted)
    meta = {
        "_type": "meta",
        "title": info.name,
        "id": info.id,
        "gitRoot": None,
        "createdAt": datetime.fromtimestamp(info.created_at, UTC).isoformat(),
    }
    for line in (meta, *map(message_to_json, messages)):
        print(dumps(line))


def markdown(messages: Sequence[Message]) -> str:
    """A conversation as people read it: who said what, and which tools were called."""
    parts = []
    for message in messages:
        if message.role in ("user", "assistant") and message.text:
            parts.append(f"## {'You' if message.role == 'user' else 'Kore'}\n\n{message.text}")
        parts += [f"> {call.name} `{call.raw}`" for call in message.tool_calls]
        if message.role == "tool" and message.is_error:
            parts.append(f"> failed: {message.text}")
        if message.taint:
            parts.append(f"> brought in: {', '.join(sorted(message.taint))}")
    return "\n\n".join(parts)
