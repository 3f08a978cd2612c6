"""Errors that drafts would introduce, according to language servers."""

import asyncio
import logging
import os
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from weakref import WeakSet

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
from agent.i18n import plural, t
from agent.prompts import render_prompt
from agent.records import frozen
from agent.security.taint.file_marks import is_marked
from agent.security.taint.taint import NOTHING, UNTRUSTED
from agent.settings import LspSettings
from agent.tools.base import CallContext
from agent.tools.file_views import FileViews
from agent.tools.files.draft_check import Draft, DraftReport, Renaming
from agent.tools.files.workspace_scope import WorkspaceScope, holds_files_of_others
from agent.types import Taint

log = logging.getLogger(__name__)

_MAX_SHOWN = 20
_MAX_SHOWN_TO_USER = 3
# Other open documents that are checked again.
_MAX_DEPENDENTS = 10
_DEPENDENTS_TIMEOUT_S = 2.0
# The first check in a server's session may take this many times longer than later ones.
_FIRST_WAIT_FACTOR = 3
# Messages about unresolved imports; the codes differ between servers and versions.
_UNRESOLVED = re.compile(r"import|module|file not found", re.IGNORECASE)


@frozen
class _Finding:
    path: Path
    diagnostic: Diagnostic


@frozen
class NewErrors:
    """Number of new errors, and a line for each of the first few.

    `unchecked` are sentences about files that no server checked, although one should have.
    `are_marked`: some files contain untrusted text.
    """

    count: int
    text: str
    are_marked: bool
    unchecked: tuple[str, ...] = ()

    def for_model(self, prompt: str) -> str:
        """Return a prompt with the errors, and the sentences about unchecked files."""
        parts = [render_prompt(prompt, errors=self.text)] if self.count else []
        if self.unchecked:
            reasons = " ".join(self.unchecked)
            parts.append(render_prompt("lsp/not_checked", reasons=reasons))
        return "\n".join(parts)

    @property
    def taint(self) -> frozenset[Taint]:
        return UNTRUSTED if self.are_marked else NOTHING

    @property
    def first_lines(self) -> list[str]:
        """Lines to show to a person."""
        lines = self.text.split("\n")
        more = [f"… ({self.count - _MAX_SHOWN_TO_USER})"] if self.count > _MAX_SHOWN_TO_USER else []
        return [*lines[:_MAX_SHOWN_TO_USER], *more]


class DraftDiagnostics:
    """A `DraftCheck` based on language servers.

    If no server answers in time, it only says so: an edit never fails because of a server.
    """

    def __init__(self, servers: LanguageServers, views: FileViews, scope: WorkspaceScope) -> None:
        self._servers = servers
        self._dependents = Dependents(servers, views, scope)
        # Sessions that were asked for a check before.
        self._asked_sessions: WeakSet[LspSession] = WeakSet()

    @property
    def refuses(self) -> bool:
        return self._settings.before_write == "block" and self._settings.enabled

    @property
    def _settings(self) -> LspSettings:
        return self._servers.settings

    async def check(
        self,
        drafts: Sequence[Draft],
        call: CallContext,
        insists: str = "",
        renaming: Renaming | None = None,
    ) -> DraftReport:
        if self._settings.before_write == "off":
            return DraftReport()
        errors = await self.find_errors(drafts, call, renaming)
        if errors.count and self.refuses and not insists.strip():
            failure = ToolError(errors.for_model("lsp/refused"))
            failure.untrusted = errors.are_marked
            raise failure
        for_user = [t("not checked for new errors")] if errors.unchecked else []
        if errors.count:
            count = plural(errors.count, "{n} new error", "{n} new errors")
            for_user = [count, *errors.first_lines, *for_user]
        return DraftReport(errors.for_model("lsp/new_errors"), "\n".join(for_user), errors.taint)

    async def find_errors(
        self, drafts: Sequence[Draft], call: CallContext, renaming: Renaming | None = None
    ) -> NewErrors:
        """Return the errors that the drafts introduce together, also in files that use them."""
        root = await asyncio.to_thread(call.workspace.resolve)
        # An answer about one file may quote any other.
        groups = {} if holds_files_of_others(call) else await self._group_by_server(drafts, root)
        findings: list[_Finding] = []
        unchecked: list[str] = []
        served: set[Path] = set()
        for server, group in groups.items():
            try:
                comparison = await self._check_group(server, group, call, renaming)
            except ToolError as exc:
                log.info("a write was not checked: %s", exc)
                unchecked.append(str(exc))
                continue
            findings += comparison.findings
            served.update(draft.path for draft in group)
            if comparison.unchecked:
                names = ", ".join(
                    _display_path(path, root, call.base) for path in comparison.unchecked
                )
                unchecked.append(
                    f"The language server {server.settings.name} did not report on {names} in time."
                )
            if not comparison.are_all_dependents:
                unchecked.append(
                    f"The language server {server.settings.name} did not find the files that use "
                    "the changed names in time."
                )
        unserved_drafts = [draft for draft in drafts if draft.path not in served]
        findings += await asyncio.to_thread(_syntax_errors, unserved_drafts)
        # A diagnostic of one file may quote any other: a type, a name.
        marked = bool(findings or unchecked) and await asyncio.to_thread(is_marked, root)
        listing = _listing(findings, root, call.base)
        return NewErrors(len(findings), listing, marked, tuple(unchecked))

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
        self,
        server: LanguageServer,
        drafts: list[Draft],
        call: CallContext,
        renaming: Renaming | None,
    ) -> "_Comparison":
        """Return the errors according to one server. Raises `ToolError` if it does not answer."""
        limits = _Limits(self._settings.wait_s)
        if server.running is None or server.running not in self._asked_sessions:
            # The server still has to start and to read the project.
            limits = limits.times(_FIRST_WAIT_FACTOR)
        languages = self._languages(server, drafts)

        async def work(session: LspSession) -> _Comparison:
            self._asked_sessions.add(session)
            async with server.turn:
                await refresh(session)
                for draft in drafts:
                    if draft.before is not None:
                        session.open(draft.path, draft.before, languages[draft.path])
                are_all = await self._dependents.open(session, server, drafts, call)
                comparison = await _compare(session, drafts, languages, limits, renaming)
                return replace(comparison, are_all_dependents=are_all)

        return await server.ask("a check before a write", work, limits.check_s)

    def _languages(self, server: LanguageServer, drafts: Sequence[Draft]) -> dict[Path, str]:
        return {draft.path: self._servers.language(server.settings, draft.path) for draft in drafts}


@frozen
class _Limits:
    """Time limits of a check and of the diagnostics of each dependent file in it."""

    check_s: float
    dependent_s: float = _DEPENDENTS_TIMEOUT_S

    def times(self, factor: float) -> "_Limits":
        return _Limits(self.check_s * factor, self.dependent_s * factor)


@frozen
class _Comparison:
    """New errors according to a server, and the files about which it reported nothing in time.

    `are_all_dependents`: it listed the files that use changed names in time.
    """

    findings: Sequence[_Finding]
    unchecked: Sequence[Path]
    are_all_dependents: bool = True


async def _compare(
    session: LspSession,
    drafts: Sequence[Draft],
    languages: Mapping[Path, str],
    limits: _Limits,
    renaming: Renaming | None,
) -> _Comparison:
    """Return the errors that the drafts introduce, in themselves and in other open documents."""
    before: dict[Path, tuple[Diagnostic, ...] | None] = {}
    for draft in drafts:
        if draft.before is None:
            before[draft.path] = ()
            continue
        session.open(draft.path, draft.before, languages[draft.path])
        before[draft.path] = await session.diagnose(draft.path, limits.check_s)
    paths = {draft.path for draft in drafts}
    other_paths = [path for path in reversed(session.documents) if path not in paths]
    other_paths = other_paths[:_MAX_DEPENDENTS]
    for path in other_paths:
        before[path] = await session.diagnose(path, limits.dependent_s)
    for draft in drafts:
        assert draft.after is not None
        session.open(draft.path, draft.after, languages[draft.path])
    lines = {draft.path: changed_lines(draft)[1] for draft in drafts}
    findings: list[_Finding] = []
    unchecked: list[Path] = []
    for path in (*paths, *other_paths):
        earlier = before[path]
        limit_s = limits.check_s if path in paths else limits.dependent_s
        after = await session.diagnose(path, limit_s)
        if after is None:
            unchecked.append(path)
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
            errors = new_errors(earlier, after, renaming)
            findings += [_Finding(path, diagnostic) for diagnostic in errors]
    await _close_new_files(session, drafts)
    created = {draft.path.stem for draft in drafts if draft.before is None}
    if not session.sees_drafts and any(map(_is_header, paths)) and len(paths) > 1:
        # The server reads includes from the disk, where the headers are not updated yet.
        findings = [finding for finding in findings if _is_header(finding.path)]
    findings = [finding for finding in findings if not _reports_new_file_missing(finding, created)]
    return _Comparison(findings, unchecked)


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
