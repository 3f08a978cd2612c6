"""Operations of the `lsp` tool and their aliases."""

from typing import Literal, get_args

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
_ALIASES = {
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
    return _OWN_NAMES.get(normalized) or _ALIASES.get(normalized)
