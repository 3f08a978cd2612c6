"""Code services of an agent, created on first use."""

from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from agent.code.status import ServerStatus
from agent.settings import LspSettings, ToolSettings
from agent.tools.base import CallContext, Tool
from agent.tools.built_in import RegistryDefaults
from agent.tools.file_views import FileViews
from agent.tools.files.draft_check import (
    Draft,
    DraftCheck,
    DraftReport,
    NoDraftCheck,
    Renaming,
)
from agent.tools.files.workspace_scope import WorkspaceScope

if TYPE_CHECKING:
    from agent.code.lsp.answers import CodeAnswers
    from agent.code.lsp.draft_diagnostics import DraftDiagnostics
    from agent.code.lsp.proposals import CodeProposals
    from agent.code.lsp.servers import LanguageServers
    from agent.code.symbols.repository_map import RepositoryMaps
    from agent.code.virtual_documents import VirtualDocuments
    from agent.code.watch.project_watches import ProjectWatches


class CodeServices:
    """Code intelligence of an agent, which also serves as its `DraftCheck`.

    Without a sandbox, language servers without explicit configuration run only in
    `trusted` folders.
    `watches` report changes on disk to running servers.
    """

    def __init__(
        self,
        settings: LspSettings,
        tools: ToolSettings,
        defaults: RegistryDefaults,
        trusted: Sequence[Path] = (),
        watches: "Callable[[], ProjectWatches] | None" = None,
    ) -> None:
        self.settings, self.tool_settings = settings, tools
        self._defaults, self._trusted = defaults, tuple(trusted)
        self._watches = watches
        self._scope = WorkspaceScope(tools)
        # True once `servers` exists: a language server may be running.
        self.is_started = False
        defaults.drafts = self if settings.enabled and settings.before_write != "off" else None

    @property
    def scope(self) -> WorkspaceScope:
        return self._scope

    @cached_property
    def servers(self) -> "LanguageServers":
        from agent.code.lsp.servers import LanguageServers

        self.is_started = True
        watches = self._watches if self.settings.watch else None
        # The watches are created with the first running server.
        follow = None if watches is None else lambda folder: watches().follow(folder)
        return LanguageServers(self.settings, self.tool_settings, self._trusted, follow)

    @cached_property
    def answers(self) -> "CodeAnswers":
        from agent.code.lsp.answers import CodeAnswers

        return CodeAnswers(self.servers, self.tool_settings)

    @cached_property
    def proposals(self) -> "CodeProposals":
        from agent.code.lsp.proposals import CodeProposals

        return CodeProposals(self.servers, self.tool_settings, self.views, self.draft_check)

    @cached_property
    def _diagnostics(self) -> "DraftDiagnostics":
        from agent.code.lsp.draft_diagnostics import DraftDiagnostics

        return DraftDiagnostics(self.servers, self.views, self._scope)

    @cached_property
    def maps(self) -> "RepositoryMaps":
        from agent.code.symbols.repository_map import RepositoryMaps
        from agent.code.symbols.tag_cache import TagCache

        folder = self.settings.folder
        return RepositoryMaps(TagCache(folder / "maps") if folder is not None else None)

    @cached_property
    def virtual(self) -> "VirtualDocuments":
        from agent.code.virtual_documents import VirtualDocuments

        return VirtualDocuments(self._diagnostics)

    def end_session(self, session: str) -> None:
        """Discard the planned files of a session."""
        if "virtual" in self.__dict__:
            self.virtual.end(session)

    @property
    def views(self) -> FileViews:
        return self._defaults.views

    @property
    def draft_check(self) -> DraftCheck:
        return self._defaults.drafts or NoDraftCheck()

    @property
    def refuses(self) -> bool:
        return self.settings.enabled and self.settings.before_write == "block"

    async def check(
        self,
        drafts: Sequence[Draft],
        call: CallContext,
        insists: str = "",
        renaming: Renaming | None = None,
    ) -> DraftReport:
        from agent.code.symbols.languages import LANGUAGES_BY_SUFFIX

        endings = {draft.path.suffix.lower() for draft in drafts}
        has_grammar = not endings.isdisjoint(LANGUAGES_BY_SUFFIX)
        if not has_grammar and not any(self.servers.candidates(draft.path) for draft in drafts):
            return DraftReport()
        return await self._diagnostics.check(drafts, call, insists, renaming)

    async def after_write(self, drafts: Sequence[Draft]) -> None:
        if self.is_started:
            await self._diagnostics.after_write(drafts)

    def tools(self) -> list[Tool]:
        """Return the tools for conversations that have a project."""
        from agent.code.symbols.tool import OutlineTool

        outline = OutlineTool(self)
        if not self.settings.enabled:
            return [outline]
        from agent.code.lsp.tool import LspEditTool, LspTool
        from agent.code.virtual_documents import CreateVirtual, SyncVirtual, UpdateVirtual

        virtual = (CreateVirtual(self), UpdateVirtual(self), SyncVirtual(self))
        return [LspTool(self), LspEditTool(self), outline, *virtual]

    def is_like(self, settings: LspSettings, tools: ToolSettings, trusted: Sequence[Path]) -> bool:
        """Return whether services with these settings would be identical."""
        own_settings = (self.settings, self.tool_settings, self._trusted)
        return own_settings == (settings, tools, tuple(trusted))

    def retire(self) -> None:
        """Tell running servers to end without waiting, when other services replace these."""
        if self.is_started:
            self.servers.retire()

    def status(self) -> list[ServerStatus]:
        """Return the status of every server used so far."""
        return self.servers.status() if self.is_started else []

    async def aclose(self) -> None:
        """Cancel background work and end all servers."""
        async with AsyncExitStack() as stack:
            if self.is_started:
                stack.push_async_callback(self.servers.aclose)
            if "maps" in self.__dict__:
                stack.push_async_callback(self.maps.aclose)
