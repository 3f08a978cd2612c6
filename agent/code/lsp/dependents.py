"""Files in which an edit of another file may cause errors."""

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
from agent.code.lsp.protocol.positions import split_lines, uri_of
from agent.code.lsp.server import LanguageServer
from agent.code.lsp.servers import LanguageServers
from agent.code.lsp.session import LspSession
from agent.errors import ToolError
from agent.tools.base import CallContext
from agent.tools.file_views import FileViews
from agent.tools.files.draft_check import Draft
from agent.tools.files.workspace_scope import WorkspaceScope

log = logging.getLogger(__name__)

# Dependents opened per check.
_MAX_OPENED = 5
# Changed names to look up per edit, and the time for each request.
_MAX_NAMES = 4
_REQUEST_TIMEOUT_S = 1.0
# The first request waits until the server has read the project, which takes long on a busy machine.
_FIRST_REQUEST_TIMEOUT_S = 15.0
# Pause for a server that was too slow, so that not every edit waits for it.
_RETRY_INTERVAL_S = 60.0
# Method, constructor, function: definitions inside a callable have no users outside.
_CALLABLES = frozenset({6, 9, 12})


class Dependents:
    """Opener of files that use changed definitions, so that the server reports errors in them."""

    def __init__(self, servers: LanguageServers, views: FileViews, scope: WorkspaceScope) -> None:
        self._servers, self._views, self._scope = servers, views, scope
        # Time at which each server may be asked for references again.
        self._next_request_at: WeakKeyDictionary[LspSession, float] = WeakKeyDictionary()

    async def open(
        self,
        session: LspSession,
        server: LanguageServer,
        drafts: Sequence[Draft],
        call: CallContext,
    ) -> bool:
        """Open dependents: files that the conversation has read first, then those that the server
        finds. Return False if the server did not find them in time.

        The drafts must be open with their text on disk.
        """
        if not session.sees_drafts:
            return True
        are_all = True
        paths = await asyncio.to_thread(self._seen_files, server, drafts, call)
        if len(paths) < _MAX_OPENED:
            users = await self._users(session, drafts)
            are_all = users is not None
            paths += users or []
        paths = list(dict.fromkeys(paths))
        paths = await asyncio.to_thread(self._visible, paths, drafts, call)
        for path in paths[:_MAX_OPENED]:
            if path in session.documents:
                continue
            try:
                await open_from_disk(session, path, self._servers.language(server.settings, path))
            except ToolError:
                # It may have been deleted in the meantime.
                continue
        return are_all

    def _seen_files(
        self, server: LanguageServer, drafts: Sequence[Draft], call: CallContext
    ) -> list[Path]:
        """Return recently read files that mention the name of a drafted file, as imports do."""
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
            if len(dependents) == _MAX_OPENED:
                break
        return dependents

    async def _users(self, session: LspSession, drafts: Sequence[Draft]) -> list[Path] | None:
        """Return the files that use changed names, or None if the server is too slow."""
        users: list[Path] = []
        next_request_at = self._next_request_at.get(session)
        if next_request_at is not None and next_request_at > time.monotonic():
            return None
        limit_s = _FIRST_REQUEST_TIMEOUT_S if next_request_at is None else _REQUEST_TIMEOUT_S
        self._next_request_at[session] = time.monotonic()
        try:
            async with asyncio.timeout(limit_s):
                for draft in drafts:
                    if draft.before is not None and draft.after is not None:
                        await session.read_project(draft.path)
                        users += await find_users(session, draft, limit_s)
        except TimeoutError:
            self._next_request_at[session] = time.monotonic() + _RETRY_INTERVAL_S
            return None
        except ResponseError as exc:
            log.info("a language server returned no references: %s", exc)
        return users

    def _visible(
        self, paths: Sequence[Path], drafts: Sequence[Draft], call: CallContext
    ) -> list[Path]:
        """Return the paths that the call may read: a server may name any file."""
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


async def find_users(session: LspSession, draft: Draft, timeout_s: float) -> list[Path]:
    """Return the files that use definitions changed by a draft, heaviest users first.

    Raises `ResponseError`, and TimeoutError if a request takes longer than `timeout_s`.
    """
    symbols, references = METHODS["document_symbols"], METHODS["references"]
    if not all(session.offers(method.capability, method.name) for method in (symbols, references)):
        return []
    document = {"textDocument": {"uri": uri_of(draft.path)}}
    outline = await session.peer.request(symbols.name, document, timeout_s)
    source_lines = split_lines(draft.before or "")
    names = changed_names(outline, changed_lines(draft)[0], source_lines)
    counts: Counter[Path] = Counter()
    for position in names[:_MAX_NAMES]:
        params = {**document, "position": position, "context": {"includeDeclaration": False}}
        places = await session.peer.request(references.name, params, timeout_s)
        if await session.finish_loading():
            places = await session.peer.request(references.name, params, timeout_s)
        counts.update(place.path for place in places_of(places) if place.path != draft.path)
    return sorted(counts, key=lambda path: (-counts[path], path))


def changed_names(symbols: Any, lines: range, source_lines: Sequence[str]) -> list[Any]:
    """Return the positions of names whose definitions these lines change for other files."""
    return [
        position
        for position in _changed_names(symbols, lines, source_lines)
        if position is not None
    ]


def _changed_names(symbols: Any, lines: range, source_lines: Sequence[str]) -> Iterator[Any]:
    """Yield the positions of the innermost names whose definitions overlap the lines.

    An empty range overlaps the definitions around it. Yields None for a callable if only its body
    changes.
    """
    for symbol in symbols if isinstance(symbols, list) else ():
        try:
            start, end = symbol["range"]["start"]["line"], symbol["range"]["end"]["line"]
            position = symbol["selectionRange"]["start"]
            is_changed = bool(start < lines.stop and lines.start <= end)
            name_line = int(position["line"])
        except (KeyError, TypeError, ValueError, OverflowError):
            # Only hierarchical symbols tell what they enclose.
            continue
        if not is_changed:
            continue
        if symbol.get("kind") in _CALLABLES:
            yield position if lines.start <= _head_end(source_lines, name_line) else None
            continue
        inner = list(_changed_names(symbol.get("children"), lines, source_lines))
        yield from inner or [position]


def _head_end(source_lines: Sequence[str], name_line: int) -> int:
    """Return the line that closes the parameter list of a callable."""
    depth = 0
    for number in range(max(0, name_line), len(source_lines)):
        depth += sum(source_lines[number].count(bracket) for bracket in "([")
        depth -= sum(source_lines[number].count(bracket) for bracket in ")]")
        if depth <= 0:
            return number
    return name_line


def changed_lines(draft: Draft) -> tuple[range, range]:
    """Return the changed line ranges of the file and of the draft, from 0."""
    before, after = split_lines(draft.before or ""), split_lines(draft.after or "")
    start = _count_equal(before, after)
    same = _count_equal(before[start:][::-1], after[start:][::-1])
    return range(start, len(before) - same), range(start, len(after) - same)


def _count_equal(first: Sequence[str], second: Sequence[str]) -> int:
    """Return the length of the common prefix."""
    pairs = enumerate(zip(first, second, strict=False))
    return next((n for n, (left, right) in pairs if left != right), min(len(first), len(second)))
