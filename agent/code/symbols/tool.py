"""Tool `outline`: definitions without a language server."""

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from agent.errors import ToolError
from agent.i18n import mark_for_translation
from agent.prompts import load_prompt
from agent.security.files import file_io
from agent.security.taint.file_marks import is_marked
from agent.security.taint.taint import NOTHING, PRIVATE, UNTRUSTED
from agent.tools.base import CallContext, EffectPlan
from agent.tools.files.workspace_scope import WorkspaceScope
from agent.tools.schema import parameters
from agent.tools.traits import FOLDER_ALIASES, PATH_ALIASES, ToolTraits
from agent.types import Effect, JsonSchema, Taint, ToolResult

if TYPE_CHECKING:
    from agent.code.symbols.repository_map import RepositoryMaps


class OutlineServices(Protocol):
    """Services created on first use."""

    @property
    def scope(self) -> WorkspaceScope: ...
    @property
    def maps(self) -> "RepositoryMaps": ...
    async def aclose(self) -> None: ...


class OutlineTool:
    """Tool that shows the definitions and syntax errors of a file, or the map of a folder."""

    name: ClassVar[str] = "outline"
    traits: ClassVar[ToolTraits] = ToolTraits(
        "search",
        ("paths",),
        mark_for_translation("Outlining {path}"),
        aliases=("repomap", "repositorymap", "getsymbolsoverview"),
        argument_aliases={**PATH_ALIASES, **FOLDER_ALIASES},
    )
    effect: ClassVar[Effect] = "read"
    brings: ClassVar[frozenset[Taint]] = PRIVATE
    only_in_project: ClassVar[bool] = True
    parameters: ClassVar[JsonSchema] = parameters(path="string?")

    def __init__(self, services: OutlineServices) -> None:
        self._services = services
        self._scope = services.scope

    @cached_property
    def description(self) -> str:
        return load_prompt("tools/outline")

    async def plan(self, args: Mapping[str, Any], call: CallContext) -> EffectPlan:
        """Declare a read of the file or folder."""
        return EffectPlan(reads=(self._scope.find(args.get("path") or ".", call),))

    async def run(self, args: Mapping[str, Any], call: CallContext) -> ToolResult:
        path = self._scope.find(args.get("path") or ".", call)
        kind = await file_io.in_thread(lambda: file_io.kind(path))
        if kind is None:
            raise self._scope.missing(path, call)
        if kind == "folder":
            return await self._services.maps.answer(path, call, self._scope)
        return await file_io.in_thread(lambda: _outline(path))

    async def aclose(self) -> None:
        await self._services.aclose()


def _outline(path: Path) -> ToolResult:
    from agent.code.symbols.outline import outline
    from agent.code.symbols.parsing import MAX_BYTES

    data = file_io.read(path, MAX_BYTES)
    if b"\0" in data:
        raise ToolError(f"{path} is not text.")
    text = outline(data.decode("utf-8", "replace"), path)
    words = text or f"{path} contains no definitions that its grammar recognizes."
    taint = UNTRUSTED if is_marked(path) else NOTHING
    return ToolResult(words, for_user=f"{len(text.splitlines())} lines", taint=taint)
