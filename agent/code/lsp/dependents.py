"""Files in which an edit of another one may bring errors."""

import asyncio
import logging
import re
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

from agent.code.lsp.documents import open_from_disk, read_document
from agent.code.lsp.operations import METHODS
from agent.code.lsp.places import places_of
from agent.code.lsp.protocol.peer import ResponseError
from agent.code.lsp.protocol.positions import split_lines
from agent.code.lsp.protocol.uris import uri_of
from agent.code.lsp.server import LanguageServer
from agent.code.lsp.servers import LanguageServers
from agent.code.lsp.session import LspSession
from agent.errors import ToolError
from agent.tools.base import CallContext
from agent.tools.file_views import FileViews
from agent.tools.files.draft_check import Draft
from agent.tools.files.workspace_scope import WorkspaceScope

log = logging.getLogger(__name__)

# So many files are opened to be looked at.
_MOST_OPENED = 5
# An edit is asked about for so many of the names that it changes, and so long in all.
_MOST_NAMES = 4
_ASK_S = 1.0
# The first question waits until the server has read the project.
_FIRST_ASK_S = 6.0
# One that was too slow is not asked for so long: an edit must not wait for it each time.
_PAUSE_S = 60.0
# Method, constructor, function: what is defined inside is named nowhere else.
_CALLABLES = frozenset({6, 9, 12})


class Dependents:
    """Opens files that name what drafts change, so that a server tells what becomes of them."""

    def __init__(self, servers: LanguageServers, views: FileViews, scope: WorkspaceScope) -> None:
        self._servers, self._views, self._scope = servers, views, scope
        # When each server may be asked again who uses a name.
        self._ask_after: WeakKeyDictionary[LspSession, float] = WeakKeyDictionary()

    async def open(
        self,
        session: LspSession,
        server: LanguageServer,
        drafts: Sequence[Draft],
        call: CallContext,
    ) -> None:
        """Those that the conversation has seen first, then those that the server knows of. The
        drafts are open as the disk has them."""
        if not session.sees_drafts:
            return
        paths = await asyncio.to_thread(self._seen_files, server, drafts, call)
        if len(paths) < _MOST_OPENED:
            paths += await self._users(session, drafts)
        paths = list(dict.fromkeys(paths))
        paths = await asyncio.to_thread(self._visible, paths, drafts, call)
        for path in paths[:_MOST_OPENED]:
            if path in session.documents:
                continue
            try:
                await open_from_disk(session, path, self._servers.language(server.settings, path))
            except ToolError:
                # It may be gone again.
                continue

    def _seen_files(
        self, server: LanguageServer, drafts: Sequence[Draft], call: CallContext
    ) -> list[Path]:
        """Files that the session has seen last and that name one of the drafts: as imports do."""
        extensions, root = server.settings.extensions, call.workspace
        stems = "|".join(re.escape(draft.path.stem) for draft in drafts if draft.before is not None)
        if not stems:
            return []
        names_a_draft = re.compile(rf"\b(?:{stems})\b")
        dependents: list[Path] = []
        for path in self._views.seen_files(call.session):
            is_served = path.suffix in extensions and path.is_relative_to(root)
            if not is_served or any(path == draft.path for draft in drafts):
                continue
            try:
                text, _ = read_document(path)
            except ToolError:
                continue
            if names_a_draft.search(text):
                dependents.append(path)
            if len(dependents) == _MOST_OPENED:
                break
        return dependents

    async def _users(self, session: LspSession, drafts: Sequence[Draft]) -> list[Path]:
        """Files that name what the drafts change, as the server knows them in time."""
        users: list[Path] = []
        ask_after = self._ask_after.get(session)
        if ask_after is not None and ask_after > time.monotonic():
            return []
        limit_s = _FIRST_ASK_S if ask_after is None else _ASK_S
        self._ask_after[session] = time.monotonic()
        try:
            async with asyncio.timeout(limit_s):
                for draft in drafts:
                    if draft.before is not None and draft.after is not None:
                        await session.read_project(draft.path)
                        users += await find_users(session, draft)
        except TimeoutError:
            self._ask_after[session] = time.monotonic() + _PAUSE_S
        except ResponseError as exc:
            log.info("a language server does not tell who uses a name: %s", exc)
        return users

    def _visible(
        self, paths: Sequence[Path], drafts: Sequence[Draft], call: CallContext
    ) -> list[Path]:
        """Those that the call may read: a server may name anything."""
        edited_paths = {draft.path for draft in drafts}
        root = call.workspace
        visible: list[Path] = []
        for path in paths:
            if path in edited_paths or not path.is_relative_to(root):
                continue
            try:
                if self._scope.find(str(path), call) == path:
                    visible.append(path)
            except ToolError:
                continue
        return visible


async def find_users(session: LspSession, draft: Draft) -> list[Path]:
    """Files that name what a draft changes, those first that do so most. Raises `ResponseError`."""
    symbols, references = METHODS["document_symbols"], METHODS["references"]
    if not all(session.offers(one.capability, one.name) for one in (symbols, references)):
        return []
    document = {"textDocument": {"uri": uri_of(draft.path)}}
    outline = await session.peer.request(symbols.name, document, _ASK_S)
    text_lines = split_lines(draft.before or "")
    names = changed_names(outline, changed_lines(draft)[0], text_lines)
    counts: Counter[Path] = Counter()
    for position in names[:_MOST_NAMES]:
        wish = {**document, "position": position, "context": {"includeDeclaration": False}}
        places = await session.peer.request(references.name, wish, _ASK_S)
        if await session.finish_loading():
            places = await session.peer.request(references.name, wish, _ASK_S)
        counts.update(one.path for one in places_of(places) if one.path != draft.path)
    return sorted(counts, key=lambda path: (-counts[path], path))


def changed_names(symbols: Any, lines: range, text_lines: Sequence[str]) -> list[Any]:
    """Where the names stand whose definitions change by these lines, as far as others see it."""
    return [one for one in _changed_names(symbols, lines, text_lines) if one is not None]


def _changed_names(symbols: Any, lines: range, text_lines: Sequence[str]) -> Iterator[Any]:
    """Where the innermost names stand whose definitions have some of the lines, or for no lines
    go on at both sides of that place; None for a callable of which only the body changes."""
    for symbol in symbols if isinstance(symbols, list) else ():
        try:
            start, end = symbol["range"]["start"]["line"], symbol["range"]["end"]["line"]
            position = symbol["selectionRange"]["start"]
            is_changed = bool(start < lines.stop and lines.start <= end)
            name_line = int(position["line"])
        except (KeyError, TypeError, ValueError, OverflowError):
            # Only trees of symbols tell what is changed.
            continue
        if not is_changed:
            continue
        if symbol.get("kind") in _CALLABLES:
            yield position if lines.start <= _head_end(text_lines, name_line) else None
            continue
        inner = list(_changed_names(symbol.get("children"), lines, text_lines))
        yield from inner or [position]


def _head_end(text_lines: Sequence[str], name_line: int) -> int:
    """The line on which the brackets around the parameters of a callable are closed."""
    depth = 0
    for number in range(max(0, name_line), len(text_lines)):
        depth += sum(text_lines[number].count(one) for one in "([")
        depth -= sum(text_lines[number].count(one) for one in ")]")
        if depth <= 0:
            return number
    return name_line


def changed_lines(draft: Draft) -> tuple[range, range]:
    """The lines of the file and of the draft, from 0 on, between what they have in common."""
    before, after = split_lines(draft.before or ""), split_lines(draft.after or "")
    start = _count_equal(before, after)
    same = _count_equal(before[start:][::-1], after[start:][::-1])
    return range(start, len(before) - same), range(start, len(after) - same)


def _count_equal(first: Sequence[str], second: Sequence[str]) -> int:
    """How many lines are the same at their beginning."""
    pairs = enumerate(zip(first, second, strict=False))
    return next((n for n, (one, other) in pairs if one != other), min(len(first), len(second)))
