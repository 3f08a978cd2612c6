"""Command `kore sessions`: list, show, search, fork, rename, pause and export sessions."""

import argparse
import asyncio
import sys
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict
from typing import Literal

from agent.i18n import t
from agent.serialization import message_to_json
from agent.text.visible import escape_invisible
from agent.types import Message
from gateway.cli.output import clean, clean_lines, moment, print_json, print_table
from gateway.cli.program import as_installed
from gateway.cli.service_link import service_of
from gateway.control.service import Service
from gateway.core.messages import ONCE
from gateway.core.records import SearchHit, SessionInfo
from gateway.core.transcript import readable
from gateway.core.transcript_page import transcript_page
from gateway.presenter.text import home_relative

_AUTHORS = {"user": "you", "name": "its name"}


def run(args: argparse.Namespace) -> int:
    asyncio.run(_run(args))
    return 0


async def _run(args: argparse.Namespace) -> None:
    async with service_of(args) as service:
        if args.action == "list":
            _list(await service.list_sessions(args.limit), as_json=args.json)
            return
        if args.action in _ACTIONS:
            await _ACTIONS[args.action](service, args)
            return
        messages = await service.load_messages(args.id)
        if args.action == "show":
            preview = await service.preview_session(args.id, 0, 0)
            if args.html:
                print(transcript_page(preview.info, messages))
            else:
                _show(preview.info, messages, as_json=args.json)
        elif args.format == "markdown":
            print(readable(messages))
        else:
            for line in await service.export_session(args.id):
                print(line)


async def _search(service: Service, args: argparse.Namespace) -> None:
    hits = await service.search_messages(" ".join(map(_quote_phrase, args.words)), args.limit)
    if args.json:
        print_json([asdict(hit) for hit in hits])
        return
    for hit in hits:
        author = _AUTHORS.get(hit.role, "Kore")
        name = f"  {escape_invisible(hit.name)}" if hit.name and hit.role != "name" else ""
        print(f"{hit.session}  {moment(hit.at)}  {author}{name}")
        print(f"    {_highlight(hit)}")
    if not hits:
        print(t("nothing found"), file=sys.stderr)


def _quote_phrase(word: str) -> str:
    """Quote a word with spaces, which was a single argument of the shell."""
    return f'"{word}"' if " " in word and '"' not in word else word


def _highlight(hit: SearchHit) -> str:
    """Return the snippet with matches in bold on a terminal."""
    begin, end = ("\x1b[1m", "\x1b[0m") if sys.stdout.isatty() else ("", "")
    pieces, at = [], 0
    for start, stop in hit.marks:
        highlighted = f"{begin}{escape_invisible(hit.snippet[start:stop])}{end}"
        pieces += [escape_invisible(hit.snippet[at:start]), highlighted]
        at = stop
    return "".join([*pieces, escape_invisible(hit.snippet[at:])])


async def _fork(service: Service, args: argparse.Namespace) -> None:
    fork = await service.fork_session(args.id)
    if args.json:
        print_json({"id": fork})
    else:
        print(
            as_installed(
                t(
                    "Session {fork} is a copy of {args}; `kore -r {fork}` continues it",
                    fork=fork,
                    args=args.id,
                )
            )
        )


async def _import(service: Service, args: argparse.Namespace) -> None:
    session = await service.import_session(args.file)
    if args.json:
        print_json({"id": session})
    else:
        print(as_installed(t("Session {made}; `kore -r {made}` continues it", made=session)))


async def _rename(service: Service, args: argparse.Namespace) -> None:
    print(clean(await service.rename_session(args.id, " ".join(args.name))))


async def _set_status(service: Service, args: argparse.Namespace) -> None:
    states: dict[str, Literal["open", "paused", "closed"]]
    states = {"pause": "paused", "resume": "open", "close": "closed"}
    print(await service.set_session_status(args.id, states[args.action]))


_ACTIONS: dict[str, Callable[[Service, argparse.Namespace], Awaitable[None]]] = {
    "search": _search,
    "import": _import,
    "fork": _fork,
    "rename": _rename,
    "pause": _set_status,
    "resume": _set_status,
    "close": _set_status,
}


def _list(sessions: Sequence[SessionInfo], *, as_json: bool) -> None:
    if as_json:
        print_json([asdict(info) for info in sessions])
        return
    if not sessions:
        print(as_installed(t("no sessions yet; start one with `kore`")), file=sys.stderr)
        return
    rows = [
        (
            s.id,
            s.status,
            str(s.messages),
            moment(s.last_active_at),
            _lane_label(s.lane or ""),
            clean(home_relative(s.folder.path)) if s.folder else "-",
            s.name,
        )
        for s in sessions
    ]
    print_table(("id", "status", "messages", "last active", "where", "folder", "name"), rows)


def _lane_label(lane: str) -> str:
    """Return the lane of a chat or terminal; a one-shot run does not return to its lane."""
    return "cli" if lane.startswith(ONCE) else lane


def _show(info: SessionInfo, messages: Sequence[Message], *, as_json: bool) -> None:
    if as_json:
        print_json([message_to_json(message) for message in messages])
        return
    if info.taint:
        print(t("> received so far: {replace}\n", replace=info.taint.replace(",", ", ")))
    print(clean_lines(readable(messages)))
