"""What a model may ask a language server for, and how other programs call that."""

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
# These change files.
EDITS = frozenset({"rename", "format", "apply_code_action"})

# How other programs call them; case and "_" do not matter.
_OTHER_NAMES = {
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


def operation_named(name: str) -> str | None:
    """The operation that a model means; None for none."""
    spelled = (
        name.strip().casefold().replace("_", "").replace("-", "").removeprefix("textdocument/")
    )
    return _OWN_NAMES.get(spelled) or _OTHER_NAMES.get(spelled)
