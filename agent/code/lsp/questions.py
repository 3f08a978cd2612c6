"""Requests about a file: its server, its open document and the position that the model means."""

import asyncio
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from agent.code.lsp.documents import open_from_disk, refresh
from agent.code.lsp.operations import METHODS
from agent.code.lsp.protocol.positions import Position, TextLines, uri_of
from agent.code.lsp.server import LanguageServer
from agent.code.lsp.servers import LanguageServers
from agent.code.lsp.session import LspSession
from agent.errors import ToolError
from agent.records import frozen
from agent.security.taint.file_marks import is_marked
from agent.settings import ToolSettings
from agent.text.visible import escape_line
from agent.tools.base import CallContext
from agent.tools.files.workspace_scope import WorkspaceScope, holds_files_of_others

_NEEDS_POSITION = frozenset(
    {
        *("definition", "declaration", "references", "implementation", "type_definition"),
        *("hover", "completion", "signature", "incoming_calls", "outgoing_calls", "rename"),
    }
)
# Operations with incomplete results until the server has read the whole project.
_NEEDS_WHOLE_PROJECT = frozenset(
    {
        *("definition", "references", "implementation", "incoming_calls", "outgoing_calls"),
        "rename",
    }
)
# Line numbers of models may be off by this many lines.
_MAX_LINE_DISTANCE = 3
DIAGNOSE_TIMEOUT_S = 20.0


@frozen
class Question:
    """Operation on an open document, with the arguments of the call."""

    operation: str
    path: Path
    text: str
    args: Mapping[str, Any]
    session: LspSession
    limit_s: float

    def params(self) -> dict[str, Any]:
        """Return the document and, if the operation needs it, the position. Raises `ToolError`."""
        params: dict[str, Any] = {"textDocument": {"uri": uri_of(self.path)}}
        if self.operation in _NEEDS_POSITION:
            lines = TextLines(self.text)
            position = _find_position(lines, self.args, self.operation)
            params["position"] = lines.to_wire(position, self.session.encoding)
        return params

    async def ask(self, params: Mapping[str, Any]) -> Any:
        """Return the server's answer. Raises `ToolError` if the server lacks the operation."""
        method = METHODS[self.operation]
        if not self.session.offers(method.capability, method.name):
            raise ToolError(f"This language server has no {self.operation}.")
        answer = await self.session.peer.request(method.name, params, self.limit_s)
        if self.operation in _NEEDS_WHOLE_PROJECT and await self.session.finish_loading():
            answer = await self.session.peer.request(method.name, params, self.limit_s)
        return answer


class CodeQuestions:
    """Preparation of questions for the server that handles a file."""

    def __init__(self, servers: LanguageServers, settings: ToolSettings) -> None:
        self.servers = servers
        self.scope = WorkspaceScope(settings)

    def find_path(self, args: Mapping[str, Any], call: CallContext) -> Path:
        """Return the path of the file that a call names. Raises `ToolError`."""
        if not (path := args.get("path")):
            raise ToolError(f"{args['operation']} needs the path of a file.")
        return self.scope.find(path, call)

    async def server(self, path: Path, call: CallContext) -> LanguageServer:
        """Return the server that handles a file. Raises `ToolError`."""
        refuse_guests(call)
        root = await asyncio.to_thread(call.workspace.resolve)
        server = await self.servers.find(path, root)
        if server is None:
            raise ToolError(self.servers.explain_absence(path))
        return server

    async def question(
        self, session: LspSession, server: LanguageServer, path: Path, args: Mapping[str, Any]
    ) -> Question:
        """Open the file with its text on disk and return the question. Raises `ToolError`."""
        await refresh(session)
        language = self.servers.language(server.settings, path)
        text = await open_from_disk(session, path, language)
        if args["operation"] in _NEEDS_WHOLE_PROJECT:
            await session.read_project(path)
        limit_s = self.servers.settings.timeout_s
        return Question(str(args["operation"]), path, text, args, session, limit_s)


@asynccontextmanager
async def errors_that_quote(call: CallContext) -> AsyncIterator[None]:
    """Mark errors as untrusted when the workspace is: they may quote any file of the project."""
    try:
        yield
    except ToolError as exc:
        exc.untrusted |= await asyncio.to_thread(lambda: is_marked(call.workspace))
        raise


def refuse_guests(call: CallContext) -> None:
    """Raise `ToolError` for a person who must not see part of the folder."""
    if holds_files_of_others(call):
        raise ToolError(
            "Language servers read the whole workspace: here only the owner may use them."
        )


def _find_position(lines: TextLines, args: Mapping[str, Any], operation: str) -> Position:
    """Return the position that a model means: a character, or a name on a line or near it.

    For completion, this is the end of the name; for a signature, the position after its bracket.
    Raises `ToolError`.
    """
    line, symbol = args.get("line"), args.get("symbol")
    if line is not None and args.get("character") is not None and not symbol:
        return Position(int(line) - 1, max(0, int(args["character"]) - 1))
    if not symbol:
        line_text = lines.line(int(line) - 1).strip()[:200] if line is not None else ""
        on_line = f" Line {line} reads: {escape_line(line_text)}" if line_text else ""
        raise ToolError(f"{operation} needs the name as symbol, best with its line.{on_line}")
    # The last part of a dotted name counts.
    name = str(symbol).strip().rpartition(".")[2] or str(symbol)
    word = re.compile(rf"(?<!\w){re.escape(name)}(?!\w)")
    order = _lines_from(int(line) - 1, len(lines)) if line is not None else range(len(lines))
    for number in order:
        if match := word.search(lines.line(number)):
            return Position(number, _character(match, operation))
    where = f"on line {line} or near it" if line is not None else "in the file"
    raise ToolError(f"There is no {name[:80]!r} {where}.")


def _character(match: re.Match[str], operation: str) -> int:
    match operation:
        case "completion":
            return match.end()
        case "signature" if match.string[match.end() :].startswith("("):
            return match.end() + 1
    return match.start()


def _lines_from(line: int, line_count: int) -> list[int]:
    near = [line]
    for distance in range(1, _MAX_LINE_DISTANCE + 1):
        near += [line - distance, line + distance]
    return [number for number in near if 0 <= number < line_count]
