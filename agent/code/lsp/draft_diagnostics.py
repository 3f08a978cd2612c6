"""Errors that drafts would introduce, according to language servers."""

import asyncio
import logging
import os
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

from agent.code.lsp.dependents import Dependents, changed_lines
from agent.code.lsp.diagnostics import Diagnostic, new_errors
from agent.code.lsp.documents import (
    Change,
    notify_changes,
    refresh,
)
from agent.code.lsp.protocol.peer import PeerClosed
from agent.code.lsp.protocol.positions import Position
from agent.code.lsp.server import LanguageServer
from agent.code.lsp.servers import LanguageServers
from agent.code.lsp.session import LspSession
from agent.code.symbols.outline import syntax_faults
from agent.code.symbols.parsing import language_of
from agent.errors import ToolError
from agent.i18n import plural
from agent.prompts import render_prompt
from agent.records import frozen
from agent.security.taint.file_marks import is_marked
from agent.security.taint.taint import NOTHING, UNTRUSTED
from agent.settings import LspSettings
from agent.tools.base import CallContext
from agent.tools.file_views import FileViews
from agent.tools.files.draft_check import Draft, DraftReport
from agent.tools.files.workspace_scope import WorkspaceScope, holds_files_of_others

log = logging.getLogger(__name__)

_MAX_SHOWN = 20
_MAX_SHOWN_TO_USER = 3
# Other open documents that are checked again.
_MAX_DEPENDENTS = 10
_DEPENDENTS_TIMEOUT_S = 2.0
# Messages about unresolved imports; the codes differ between servers and versions.
_UNRESOLVED = re.compile(r"import|module|file not found", re.IGNORECASE)


@frozen
class _Finding:
    path: Path
    diagnostic: Diagnostic


@frozen
class NewErrors:
    """Number of new errors, and a line for each of the first few.

    `are_marked`: some files contain untrusted text.
    """

    count: int
    text: str
    are_marked: bool

    @property
    def first_lines(self) -> list[str]:
        """Lines to show to a person."""
        lines = self.text.split("\n")
        more = [f"… ({self.count - _MAX_SHOWN_TO_USER})"] if self.count > _MAX_SHOWN_TO_USER else []
        return [*lines[:_MAX_SHOWN_TO_USER], *more]


class DraftDiagnostics:
    """A `DraftCheck` based on language servers.

    It reports nothing if no server answers in time: an edit never fails because of a server.
    """

    def __init__(self, servers: LanguageServers, views: FileViews, scope: WorkspaceScope) -> None:
        self._servers = servers
        self._dependents = Dependents(servers, views, scope)

    @property
    def refuses(self) -> bool:
        return self._settings.before_write == "block" and self._settings.enabled

    @property
    def _settings(self) -> LspSettings:
        return self._servers.settings

    async def check(
        self, drafts: Sequence[Draft], call: CallContext, insists: str = ""
    ) -> DraftReport:
        if self._settings.before_write == "off":
            return DraftReport()
        errors = await self.find_errors(drafts, call)
        if not errors.count:
            return DraftReport()
        if self.refuses and not insists.strip():
            failure = ToolError(render_prompt("lsp/refused", errors=errors.text))
            failure.untrusted = errors.are_marked
            raise failure
        return DraftReport(
            render_prompt("lsp/new_errors", errors=errors.text),
            "\n".join(
                (plural(errors.count, "{n} new error", "{n} new errors"), *errors.first_lines)
            ),
            UNTRUSTED if errors.are_marked else NOTHING,
        )

    async def find_errors(self, drafts: Sequence[Draft], call: CallContext) -> "NewErrors":
        """Return the errors that the drafts introduce together, also in files that use them."""
        root = await asyncio.to_thread(call.workspace.resolve)
        # An answer about one file may quote any other.
        groups = {} if holds_files_of_others(call) else await self._group_by_server(drafts, root)
        findings: list[_Finding] = []
        for server, group in groups.items():
            findings += await self._check_group(server, group, call)
        served = {draft.path for group in groups.values() for draft in group}
        unserved_drafts = [draft for draft in drafts if draft.path not in served]
        findings += await asyncio.to_thread(_syntax_errors, unserved_drafts)
        # A diagnostic of one file may quote any other: a type, a name.
        marked = bool(findings) and await asyncio.to_thread(is_marked, root)
        return NewErrors(len(findings), _listing(findings, root, call.base), marked)

    async def after_write(self, drafts: Sequence[Draft]) -> None:
        """Synchronize running servers with the disk after a write."""
        changes = [(draft.path, _kind_of_change(draft)) for draft in drafts]
        for server in self._servers.running:
            session = server.running
            if session is None:
                continue
            try:
                async with server.turn:
                    await refresh(session)
                    notify_changes(session, changes)
                    for draft in drafts:
                        session.save(draft.path)
            except PeerClosed as exc:
                # The next server reads the disk when it starts.
                log.info("language server %s: %s", server.settings.name, exc)

    async def _group_by_server(
        self, drafts: Sequence[Draft], root: Path
    ) -> Mapping[LanguageServer, list[Draft]]:
        groups: dict[LanguageServer, list[Draft]] = defaultdict(list)
        for draft in drafts:
            if draft.after is None or not draft.path.is_relative_to(root):
                continue
            server = await self._servers.find(draft.path, root)
            if server is not None:
                groups[server].append(draft)
        return groups

    async def _check_group(
        self, server: LanguageServer, drafts: list[Draft], call: CallContext
    ) -> list[_Finding]:
        limit_s = self._settings.wait_s
        languages = self._languages(server, drafts)

        async def work(session: LspSession) -> list[_Finding]:
            async with server.turn:
                await refresh(session)
                for draft in drafts:
                    if draft.before is not None:
                        session.open(draft.path, draft.before, languages[draft.path])
                await self._dependents.open(session, server, drafts, call)
                return await _compare(session, drafts, languages, limit_s)

        try:
            return await server.ask("a check before a write", work, limit_s)
        except ToolError as exc:
            log.info("a write was not checked: %s", exc)
            return []

    def _languages(self, server: LanguageServer, drafts: Sequence[Draft]) -> dict[Path, str]:
        return {draft.path: self._servers.language(server.settings, draft.path) for draft in drafts}


async def _compare(
    session: LspSession, drafts: Sequence[Draft], languages: Mapping[Path, str], limit_s: float
) -> list[_Finding]:
    """Return the errors that the drafts introduce, in themselves and in other open documents."""
    before: dict[Path, tuple[Diagnostic, ...] | None] = {}
    for draft in drafts:
        if draft.before is None:
            before[draft.path] = ()
            continue
        session.open(draft.path, draft.before, languages[draft.path])
        before[draft.path] = await session.diagnose(draft.path, limit_s)
    paths = {draft.path for draft in drafts}
    other_paths = [path for path in reversed(session.documents) if path not in paths]
    other_paths = other_paths[:_MAX_DEPENDENTS]
    for path in other_paths:
        before[path] = await session.diagnose(path, _DEPENDENTS_TIMEOUT_S)
    for draft in drafts:
        assert draft.after is not None
        session.open(draft.path, draft.after, languages[draft.path])
    lines = {draft.path: changed_lines(draft)[1] for draft in drafts}
    findings: list[_Finding] = []
    for path in (*paths, *other_paths):
        earlier = before[path]
        after = await session.diagnose(path, limit_s if path in paths else _DEPENDENTS_TIMEOUT_S)
        if after is None:
            continue
        if earlier is None:
            # Without earlier diagnostics, the position tells which errors belong to the edit.
            errors = [
                diagnostic
                for diagnostic in after
                if diagnostic.position.line in lines.get(path, ())
            ]
            findings += [_Finding(path, diagnostic) for diagnostic in new_errors((), errors)]
        else:
            findings += [_Finding(path, diagnostic) for diagnostic in new_errors(earlier, after)]
    await _close_new_files(session, drafts)
    created = {draft.path.stem for draft in drafts if draft.before is None}
    if not session.sees_drafts and any(map(_is_header, paths)) and len(paths) > 1:
        # The server reads includes from the disk, where the headers are not updated yet.
        findings = [finding for finding in findings if _is_header(finding.path)]
    return [finding for finding in findings if not _reports_new_file_missing(finding, created)]


def _is_header(path: Path) -> bool:
    return path.suffix.startswith((".h", ".H"))


def _syntax_errors(drafts: Sequence[Draft]) -> list[_Finding]:
    """Return the syntax errors that drafts without a server introduce, according to a grammar."""
    findings: list[_Finding] = []
    for draft in drafts:
        if draft.after is None or language_of(draft.path) is None:
            continue
        try:
            after = _as_diagnostics(draft.path, draft.after)
            before = _as_diagnostics(draft.path, draft.before or "") if after else ()
        except ToolError as exc:
            log.info("%s was not parsed before a write: %s", draft.path, exc)
            continue
        findings += [_Finding(draft.path, diagnostic) for diagnostic in new_errors(before, after)]
    return findings


def _as_diagnostics(path: Path, text: str) -> tuple[Diagnostic, ...]:
    return tuple(
        Diagnostic(Position(fault.line - 1, fault.column - 1), "error", f"syntax: {fault.words}")
        for fault in syntax_faults(text, path)
    )


async def _close_new_files(session: LspSession, drafts: Sequence[Draft]) -> None:
    """Close the documents of files that do not exist yet.

    A server that caches their diagnostics, such as ty, must see them missing before it accepts that
    they were created.
    """
    new_paths = [draft.path for draft in drafts if draft.before is None]
    for path in new_paths:
        session.close_document(path)
    if new_paths and session.pulls_diagnostics:
        for path in list(session.documents)[-_MAX_DEPENDENTS:]:
            await session.diagnose(path, _DEPENDENTS_TIMEOUT_S)


def _reports_new_file_missing(finding: _Finding, created: set[str]) -> bool:
    """Return whether a finding only says that a file of the same edit does not exist.

    A server does not see files that are not on disk.
    """
    message = finding.diagnostic.message
    is_named = any(re.search(rf"\b{re.escape(stem)}\b", message) for stem in created)
    return is_named and _UNRESOLVED.search(message) is not None


def _kind_of_change(draft: Draft) -> Change:
    if draft.after is None:
        return "deleted"
    return "created" if draft.before is None else "changed"


def _display_path(path: Path, root: Path, base: Path) -> str:
    return os.path.relpath(path, base) if path.is_relative_to(root) else str(path)


def _listing(findings: Sequence[_Finding], root: Path, base: Path) -> str:
    lines = [
        f"{_display_path(finding.path, root, base)}:{finding.diagnostic}"
        for finding in findings[:_MAX_SHOWN]
    ]
    if len(findings) > _MAX_SHOWN:
        lines.append(f"… ({len(findings) - _MAX_SHOWN} more)")
    return "\n".join(lines)
