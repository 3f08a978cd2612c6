"""Client capabilities sent to language servers."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agent.code.lsp.protocol.positions import uri_of
from agent.version import VERSION

_DYNAMIC = {"dynamicRegistration": True}
_LINKS = {"linkSupport": True}
# All symbol kinds of the protocol.
_SYMBOL_KINDS = {"valueSet": list(range(1, 27))}

_CAPABILITIES: dict[str, Any] = {
    "general": {"positionEncodings": ["utf-8", "utf-16", "utf-32"]},
    "window": {"workDoneProgress": True},
    "workspace": {
        "configuration": True,
        "workspaceFolders": True,
        "didChangeConfiguration": {},
        "didChangeWatchedFiles": _DYNAMIC,
        "workspaceEdit": {"documentChanges": True, "resourceOperations": []},
        "symbol": {"symbolKind": _SYMBOL_KINDS},
        "diagnostics": {"refreshSupport": True},
    },
    "textDocument": {
        "synchronization": {"didSave": True},
        "publishDiagnostics": {"versionSupport": True, "relatedInformation": True},
        "diagnostic": {**_DYNAMIC, "relatedDocumentSupport": False},
        "definition": _LINKS,
        "declaration": _LINKS,
        "typeDefinition": _LINKS,
        "implementation": _LINKS,
        "references": {},
        "hover": {"contentFormat": ["plaintext", "markdown"]},
        "documentSymbol": {
            "hierarchicalDocumentSymbolSupport": True,
            "symbolKind": _SYMBOL_KINDS,
        },
        "completion": {"completionItem": {"documentationFormat": ["plaintext"]}},
        "signatureHelp": {"signatureInformation": {"documentationFormat": ["plaintext"]}},
        "callHierarchy": {},
        "rename": {"prepareSupport": False},
        "formatting": {},
        "codeAction": {
            "codeActionLiteralSupport": {
                "codeActionKind": {
                    "valueSet": ["quickfix", "refactor", "source", "source.organizeImports"]
                }
            },
            "resolveSupport": {"properties": ["edit"]},
            "dataSupport": True,
        },
    },
}


def initialize_params(folder: Path, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters of `initialize`.

    They omit our process ID: it does not exist in the sandbox, and servers exit if their parent
    process does not exist.
    """
    return {
        "processId": None,
        "clientInfo": {"name": "kore", "version": VERSION},
        "rootPath": str(folder),
        "rootUri": uri_of(folder),
        "workspaceFolders": [{"uri": uri_of(folder), "name": folder.name}],
        "capabilities": _CAPABILITIES,
        "initializationOptions": dict(options),
    }
