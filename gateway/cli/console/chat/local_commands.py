"""Commands that exist only in the terminal; all others are sent as messages."""

import asyncio
import os
import re
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from agent.errors import KoreError
from agent.i18n import mark_for_translation, plural, t
from agent.skills.commands import BUILT_IN, BuiltInCommand
from agent.text.similar_names import similar_names
from agent.text.visible import escape_invisible, escape_line
from gateway.cli.console.chat.place import ReadLine
from gateway.cli.console.output import renderables
from gateway.cli.console.output.screen import Cell, Screen
from gateway.commands import find_command
from gateway.commands.table import COMMANDS
from gateway.control.service import Service
from gateway.core.records import Excerpt, SessionInfo
from gateway.presenter.text import home_relative

if TYPE_CHECKING:
    from gateway.cli.console.chat.workdir import ConsoleWorkdir
    from gateway.cli.console.input.session_picker import PickerItem, Preview

    Pick = Callable[[Sequence[PickerItem], Preview], Awaitable[str | None]]

# Completion also lists the commands of every chat, which the gateway answers.
CONSOLE_COMMANDS = (
    ("/sessions", mark_for_translation("list the sessions")),
    ("/resume", mark_for_translation("resume a session: /resume ID, or choose from a list")),
    (
        "/export",
        mark_for_translation("export this session: /export FILE (.md for reading)"),
    ),
    (
        "/output",
        mark_for_translation("expand the last result, then earlier ones (also Ctrl-O)"),
    ),
    ("/paste", mark_for_translation("insert the clipboard: a picture, or text")),
    ("/exit", mark_for_translation("exit; the session is kept")),
)
FILE = ("@path", mark_for_translation("attach a file, folder or picture to the message"))
BY_HAND = (
    "!command",
    mark_for_translation("run a shell command yourself; the model sees its output"),
)
# Prefixes that do not start a shell command: the scripted model's tool syntax and a markdown
# picture.
_NOT_SHELL_COMMANDS = ("!tool ", "![")
_WORD = re.compile(r"/[A-Za-z]{3,20}")
_CLOSE = 0.75
_OWN = {name for name, _ in CONSOLE_COMMANDS}
CHAT_COMMANDS = tuple(
    (f"/{name}", command.summary)
    for name, command in COMMANDS.items()
    if command.group is not None and f"/{name}" not in _OWN
)
CONSOLE_WORDS = frozenset({"/quit", "/help", *_OWN, *(f"/{name}" for name in BUILT_IN)})
KEYS_HELP = (
    ("Enter", mark_for_translation("send")),
    ("Shift-Enter, Alt-Enter, Ctrl-J", mark_for_translation("new line")),
    ("Tab", mark_for_translation("accept the suggestion; during a turn: send for afterwards")),
    ("Up, Down", mark_for_translation("input history")),
    ("Ctrl-O", mark_for_translation("expand the last result")),
    ("Ctrl-R", mark_for_translation("search the input history")),
    ("Esc, Ctrl-C", mark_for_translation("stop the turn; Ctrl-C also clears the line")),
    ("Ctrl-D", mark_for_translation("exit")),
)
_TERMINAL, _CUSTOM, _KEYS = (
    mark_for_translation("Terminal"),
    mark_for_translation("Your own commands"),
    mark_for_translation("Keys"),
)
_AGO = (
    (86_400, mark_for_translation("{n} d ago")),
    (3_600, mark_for_translation("{n} h ago")),
    (60, mark_for_translation("{n} min ago")),
)
_MAX_SHOWN_SESSIONS = 20
_SHOWN_MESSAGES = 2
# Minimum terminal width in columns for more details than the name of a session.
_WIDE = 72
_MAX_PICKED_SESSIONS = 500
_PREVIEWED = 6


def help_table(place: "ConsoleWorkdir | None" = None) -> Table:
    """Return a table of all commands and keys, including custom commands."""
    groups: list[tuple[str, Iterable[tuple[str, str]]]] = [
        (
            group,
            [
                (f"/{chat_command.name}", chat_command.summary)
                for chat_command in commands
                if f"/{chat_command.name}" not in _OWN
            ],
        )
        for group, commands in groupby(COMMANDS.values(), lambda item: item.group)
        if group is not None
    ]
    prompts = place.custom_commands.menu() if place else BUILT_IN.values()
    built_in: list[tuple[str, str]] = []
    own: list[tuple[str, str]] = []
    for prompt in prompts:
        described = built_in if isinstance(prompt, BuiltInCommand) else own
        described.append((f"/{prompt.name}", prompt.summary))
    groups.append((_TERMINAL, (*CONSOLE_COMMANDS, *built_in, FILE, BY_HAND)))
    if own:
        groups.append((_CUSTOM, own))
    groups.append((_KEYS, KEYS_HELP))
    table = Table.grid(padding=(0, 2))
    for title, rows in groups:
        table.add_row(Text(t(title), "bold underline"))
        for name, summary in rows:
            text = Cell(Text(escape_invisible(t(summary)), "dim"))
            table.add_row(Text(f"  {name}", "bold", no_wrap=True), text)
    return table


def shell_command_in(text: str) -> str | None:
    """Return the shell command of a `!` line, or None for any other line."""
    if not text.startswith("!") or text.startswith(_NOT_SHELL_COMMANDS):
        return None
    return text[1:].strip() or None


def misspelt(text: str) -> str | None:
    """Return a suggestion for a line that looks like a misspelt command, or None."""
    word = next(iter(text.split()), "")
    if not _WORD.fullmatch(word) or word in CONSOLE_WORDS or find_command(word[1:]):
        return None
    names = [*CONSOLE_WORDS, *(name for name, _ in CHAT_COMMANDS)]
    close = similar_names(word.casefold(), names, cutoff=_CLOSE)
    # A chat command with arguments is checked by the gateway.
    if not close or (close[0] not in CONSOLE_WORDS and word != text.strip()):
        return None
    return t("Unknown command {word}; did you mean {meant}?", word=word, meant=close[0])


class SessionCommands:
    """Commands `/sessions`, `/resume` and `/export` for one lane."""

    def __init__(
        self,
        service: Service,
        screen: Screen,
        read_line: ReadLine,
        pick: "Pick | None" = None,
        workspace: str | None = None,
    ) -> None:
        """Sessions of `workspace` are listed first."""
        self._workspace = workspace
        self._pick = pick
        self._service = service
        self._screen = screen
        self._read_line = read_line

    async def _list(self, limit: int) -> Sequence[SessionInfo]:
        return await sessions_here_first(self._service, self._workspace, limit)

    async def show(self) -> Sequence[SessionInfo]:
        sessions = await self._list(_MAX_SHOWN_SESSIONS)
        table = Table.grid(padding=(0, 2))
        wide = self._screen.console.width >= _WIDE
        for _ in range(5 if wide else 3):
            table.add_column(no_wrap=True)
        for n, info in enumerate(sessions, 1):
            details = (
                plural(info.messages, "{n:,} message", "{n:,} messages"),
                (info.lane or "").split(":")[0],
            )
            table.add_row(
                Text(f"{n:>3}", "bold"),
                Text(info.id, "cyan"),
                Text(ago(time.time() - info.last_active_at), "dim"),
                *(Text(detail, "dim") for detail in (details if wide else ())),
                Text(escape_invisible(info.name), no_wrap=True, overflow="ellipsis"),
            )
        self._screen.print(table if sessions else Text(t("There are no sessions yet."), "dim"))
        return sessions

    async def choose(self, name: str) -> str | None:
        """Return a session by its id or its number in the list, or let the person choose.

        Returns None if nothing was chosen. Raises `KoreError` for a number outside of the list.
        """
        sessions: Sequence[SessionInfo] = ()
        if not name and self._pick is not None:
            name = await self._pick_session(self._pick) or ""
        elif not name:
            sessions = await self.show()
            if not sessions:
                return None
            name = (await self._read_line(t("number or ID (empty: none) › ")) or "").strip()
        if not name:
            return None
        if name.isdecimal() and len(name) <= len(str(_MAX_SHOWN_SESSIONS)):
            sessions = sessions or await self._list(_MAX_SHOWN_SESSIONS)
            if not 1 <= int(name) <= len(sessions):
                raise KoreError(
                    t(
                        "found {wanted}, expected a number from 1 to {found}",
                        wanted=name,
                        found=len(sessions),
                    )
                )
            name = sessions[int(name) - 1].id
        return name

    async def export(self, lane: str, name: str) -> None:
        """Write the lane's session to a new file. Raises `KoreError` on failure."""
        session = await self._service.bound_session(lane)
        if session is None:
            raise KoreError(t("nothing to export yet: this session is empty"))
        name = name or f"{session}.jsonl"
        if name.endswith(".html"):
            from gateway.core.transcript_page import transcript_page

            preview = await self._service.preview_session(session, 0, 0)
            text = transcript_page(preview.info, await self._service.load_messages(session)) + "\n"
        elif name.endswith(".md"):
            from gateway.core.transcript import readable

            text = readable(await self._service.load_messages(session)) + "\n"
        else:
            text = "".join(f"{line}\n" for line in await self._service.export_session(session))
        path = await asyncio.to_thread(_write, name, text)
        self._screen.print(Text(t("Written to {visible}.", visible=escape_invisible(path)), "dim"))

    async def _pick_session(self, pick: "Pick") -> str | None:
        from gateway.cli.console.input.session_picker import PickerItem

        now = time.time()
        sessions = await self._list(_MAX_PICKED_SESSIONS)
        if not sessions:
            self._screen.print(Text(t("There are no sessions yet."), "dim"))
            return None
        choices = [
            PickerItem(
                info.id,
                session_label(info, self._workspace),
                f"{ago(now - info.last_active_at):>10}",
            )
            for info in sessions
        ]
        return await pick(choices, self._first_and_last)

    async def _first_and_last(self, session: str) -> Sequence[str]:
        """Return the first and the last messages of a session."""
        half = _PREVIEWED // 2
        preview = await self._service.preview_session(session, half, half)
        first, last = (
            [_line(excerpt) for excerpt in part] for part in (preview.beginning, preview.end)
        )
        between = preview.info.messages - len(first) - len(last)
        return [*first, *(["  " + t("… {n:,} more", n=between)] if last and between else []), *last]

    async def recall(self, session: str, *, answer_follows: bool = False) -> None:
        """Show the last messages of a session.

        With `answer_follows`, the last answer is omitted, because it will still be delivered and
        would be shown twice.
        """
        preview = await self._service.preview_session(session, 0, _SHOWN_MESSAGES)
        self._screen.print(
            Text(
                plural(
                    preview.info.messages,
                    "Session {id}, {n:,} message",
                    "Session {id}, {n:,} messages",
                    id=session,
                ),
                "dim",
            )
        )
        excerpts = list(preview.end)
        while answer_follows and excerpts and excerpts[-1].role != "user":
            excerpts.pop()
        for n, excerpt in enumerate(excerpts):
            if excerpt.role == "user":
                if n:
                    self._screen.print()
                self._screen.print(Text(f"› {escape_invisible(excerpt.text)}"), "dim")
            else:
                self._screen.print_block(renderables.markdown(excerpt.text), "dim")
        self._screen.print()


async def sessions_here_first(
    service: Service, workspace: str | None, limit: int
) -> Sequence[SessionInfo]:
    """Return the most recent sessions, starting with sessions of this workspace."""
    recent = await service.list_sessions(limit)
    if workspace is None:
        return recent
    here = await service.list_sessions(limit, workspace)
    ids = {info.id for info in here}
    return [*here, *(info for info in recent if info.id not in ids)][:limit]


def session_label(info: SessionInfo, workspace: str | None) -> str:
    """Return the name, with the folder of a session from another workspace."""
    if info.folder is None or info.folder.workspace == workspace:
        return info.name
    return f"{info.name} · {escape_line(home_relative(info.folder.path))}"


def _write(name: str, text: str) -> str:
    """Create a private file and return its absolute path. Raises `KoreError`."""
    file = Path.cwd() / Path(name).expanduser()
    try:
        with open(file, "x", encoding="utf-8", opener=_private) as stream:
            stream.write(text)
    except FileExistsError as exc:
        raise KoreError(
            t("{file} already exists", file=file), hint=t("/export FILE needs a new file name")
        ) from exc
    except OSError as exc:
        raise KoreError(f"{file}: {exc.strerror}") from exc
    return str(file)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _line(excerpt: Excerpt) -> str:
    return f"{'›' if excerpt.role == 'user' else ' '} {excerpt.text}"


def ago(elapsed_s: float) -> str:
    """Return an elapsed time as short text."""
    for size_s, template in _AGO:
        if elapsed_s >= size_s:
            return t(template, n=int(elapsed_s // size_s))
    return t("just now")
