"""Tools `lsp` and `lsp_edit`.

Models call only `lsp`; calls that change files become calls of `lsp_edit`. The code that answers is
imported with the first call, because most conversations never make one.
"""

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, get_args

from agent.errors import ToolError
from agent.i18n import mark_for_translation
from agent.prompts import load_prompt
from agent.security.taint.taint import PRIVATE
from agent.tools.base import CallContext, EffectPlan
from agent.tools.files.workspace_scope import WorkspaceScope
from agent.tools.schema import parameters
from agent.tools.traits import PATH_ALIASES, ToolTraits, path_argument
from agent.types import Effect, JsonSchema, Taint, ToolCall, ToolResult

if TYPE_CHECKING:
    from agent.code.lsp.answers import CodeAnswers
    from agent.code.lsp.proposals import CodeProposals


Operation = Literal[
    "definition",
    "declaration",
    "references",
    "implementation",
    "type_definition",
    "hover",
    "document_symbols",
    "workspace_symbols",
    "completion",
    "signature",
    "incoming_calls",
    "outgoing_calls",
    "diagnostics",
    "code_actions",
    "rename",
    "format",
    "apply_code_action",
]
OPERATIONS: tuple[Operation, ...] = get_args(Operation)
# Operations that change files.
EDITS = frozenset({"rename", "format", "apply_code_action"})

# Aliases from other programs; case and "_" do not matter.
_OPERATION_ALIASES = {
    "gotodefinition": "definition",
    "findreferences": "references",
    "gotoimplementation": "implementation",
    "gototypedefinition": "type_definition",
    "documentsymbol": "document_symbols",
    "symbols": "document_symbols",
    "workspacesymbol": "workspace_symbols",
    "completions": "completion",
    "signaturehelp": "signature",
    "preparecallhierarchy": "incoming_calls",
    "callers": "incoming_calls",
    "callees": "outgoing_calls",
    "codeaction": "code_actions",
    "formatting": "format",
    "formatdocument": "format",
    "diagnostic": "diagnostics",
}
_OWN_NAMES = {name.replace("_", ""): name for name in OPERATIONS}


def find_operation(name: str) -> str | None:
    """Return the operation with this name or alias, or None."""
    normalized = (
        name.strip().casefold().replace("_", "").replace("-", "").removeprefix("textdocument/")
    )
    return _OWN_NAMES.get(normalized) or _OPERATION_ALIASES.get(normalized)


class LspServices(Protocol):
    """Services that run the operations."""

    @property
    def scope(self) -> WorkspaceScope: ...
    @property
    def answers(self) -> "CodeAnswers": ...
    @property
    def proposals(self) -> "CodeProposals": ...
    async def aclose(self) -> None: ...


_PLAIN = parameters(
    operation="string",
    path="string?",
    line="integer?",
    symbol="string?",
    character="integer?",
    query="string?",
    new_name="string?",
    action="string?",
)
_PARAMETERS: JsonSchema = {
    **_PLAIN,
    "properties": {
        **_PLAIN["properties"],
        "operation": {"type": "string", "enum": list(OPERATIONS)},
    },
}

_ALIASES = {
    **PATH_ALIASES,
    "method": "operation",
    "name": "symbol",
    "column": "character",
    "newName": "new_name",
}


class LspTool:
    """Tool for the read-only operations."""

    name: ClassVar[str] = "lsp"
    traits: ClassVar[ToolTraits] = ToolTraits(
        "search",
        ("paths",),
        mark_for_translation("Looking up {operation} {symbol} {query} {path} {line}"),
        aliases=("lsprequest", "languageserver"),
        argument_aliases=_ALIASES,
        has_costly_plan=True,
    )
    effect: ClassVar[Effect] = "read"
    brings: ClassVar[frozenset[Taint]] = PRIVATE
    only_in_project: ClassVar[bool] = True
    parameters: ClassVar[JsonSchema] = _PARAMETERS

    def __init__(self, services: LspServices) -> None:
        self._services = services

    @cached_property
    def description(self) -> str:
        return load_prompt("tools/lsp")

    def stands_for(self, call: ToolCall) -> ToolCall:
        """Return the call with Kore's operation name, as a call of `lsp_edit` if it changes
        files."""
        arguments = call.arguments or {}
        operation = find_operation(str(arguments.get("operation")))
        if operation is None:
            return call
        name = LspEditTool.name if operation in EDITS else self.name
        return ToolCall(call.id, name, {**arguments, "operation": operation}, call.raw)

    async def plan(self, args: Mapping[str, Any], call: CallContext) -> EffectPlan:
        """Declare a read of the file, or of the project without one."""
        return EffectPlan(reads=(self._services.scope.find(args.get("path") or ".", call),))

    async def run(self, args: Mapping[str, Any], call: CallContext) -> ToolResult:
        if (operation := find_operation(str(args["operation"]))) in EDITS:
            raise ToolError(f"{operation} changes files, and this agent has no tool lsp_edit.")
        from agent.code.lsp.questions import errors_that_quote

        async with errors_that_quote(call):
            return await self._services.answers.answer(args, call)

    async def aclose(self) -> None:
        await self._services.aclose()


class LspEditTool:
    """Tool for renames, formatting and code actions; models reach it through `lsp`."""

    name: ClassVar[str] = "lsp_edit"
    traits: ClassVar[ToolTraits] = ToolTraits(
        "edit",
        ("paths",),
        mark_for_translation("Refactoring: {operation} {symbol} {new_name} {action} {path} {line}"),
        path_argument,
        argument_aliases=_ALIASES,
        has_costly_plan=True,
        companion_of=LspTool.name,
    )
    effect: ClassVar[Effect] = "unsafe"
    brings: ClassVar[frozenset[Taint]] = PRIVATE
    is_listed: ClassVar[bool] = False
    parameters: ClassVar[JsonSchema] = _PARAMETERS

    def __init__(self, services: LspServices) -> None:
        self._services = services

    @cached_property
    def description(self) -> str:
        return load_prompt("tools/lsp")

    async def plan(self, args: Mapping[str, Any], call: CallContext) -> EffectPlan:
        from agent.code.lsp.questions import errors_that_quote

        async with errors_that_quote(call):
            return await self._services.proposals.plan(args, call)

    async def run(self, args: Mapping[str, Any], call: CallContext) -> ToolResult:
        from agent.code.lsp.questions import errors_that_quote

        async with errors_that_quote(call):
            return await self._services.proposals.apply(args, call)
