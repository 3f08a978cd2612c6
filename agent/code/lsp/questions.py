"""Requests about a file: its server, its open document and the position that the model means."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Generic, TypeVar

from agent.code.lsp.coverage import QUICK, THOROUGH, Coverage, NameCoverage
from agent.code.lsp.documents import open_from_disk, refresh
from agent.code.lsp.operations import METHODS
from agent.code.lsp.protocol.peer import ResponseError
from agent.code.lsp.protocol.positions import Position, TextLines, uri_of
from agent.code.lsp.server import LanguageServer
from agent.code.lsp.servers import LanguageServers
from agent.code.lsp.session import LspSession
from agent.code.lsp.symbol_search import (
    ABOUT_USES,
    SymbolSearch,
    find_symbol,
    list_lines,
    name_of,
)
from agent.errors import ToolError
from agent.records import frozen
from agent.security.taint.file_marks import is_marked
from agent.settings import ToolSettings
from agent.tools.base import CallContext
from agent.tools.files.workspace_scope import WorkspaceScope, holds_files_of_others

log = logging.getLogger(__name__)

T = TypeVar("T")

# Operations with incomplete results until the server has read the whole project.
_NEEDS_WHOLE_PROJECT = frozenset(
    {
        *("definition", "references", "implementation", "incoming_calls", "outgoing_calls"),
        "rename",
    }
)
# Operations that list every use of a name.
_ABOUT_ALL_USES = frozenset({"references", "incoming_calls", "implementation", "rename"})
# Part of the time limit for the symbols of a file, which only help to find a name.
_SYMBOLS_TIME_SHARE = 0.25
DIAGNOSE_TIMEOUT_S = 20.0


@frozen
class SymbolAnswer(Generic[T]):
    """An answer about a symbol, and a sentence about the place that was asked about, if needed.

    `name` is the word at that place. `other_definitions` are the lines (from 0) of other symbols in
    the file that have its name.
    """

    value: T
    note: str = ""
    other_definitions: tuple[int, ...] = ()
    name: str = ""


@frozen
class Question:
    """Operation on an open document, with the arguments of the call."""

    operation: str
    path: Path
    text: str
    args: Mapping[str, Any]
    session: LspSession
    limit_s: float
    # For a server that has an index of compiled files.
    coverage: Coverage | None = None

    @property
    def document(self) -> dict[str, Any]:
        """The parameter that names the document."""
        return {"textDocument": {"uri": uri_of(self.path)}}

    async def ask(self, params: Mapping[str, Any]) -> Any:
        """Return the server's answer. Raises `ToolError` if the server lacks the operation."""
        method = METHODS[self.operation]
        if not self.session.offers(method.capability, method.name):
            raise ToolError(f"This language server has no {self.operation}.")
        answer = await self.session.peer.request(method.name, params, self.limit_s)
        needs_project = self.operation in _NEEDS_WHOLE_PROJECT and self.coverage is None
        if needs_project and await self.session.finish_loading():
            answer = await self.session.peer.request(method.name, params, self.limit_s)
        return answer

    async def ask_about_symbol(self, read: Callable[[Any], T], **params: Any) -> SymbolAnswer[T]:
        """Return what `read` finds in the first answer in which it finds something.

        The server is asked about each candidate in turn, because it has nothing to say about a name
        in a comment. Raises `ToolError` without a name, `ResponseError` when the server refuses
        every candidate.
        """
        lines, encoding = TextLines(self.text), self.session.encoding
        search = find_symbol(lines, self.args, self.operation, await self._symbols(), encoding)
        refusal: ResponseError | None = None
        empty: list[T] = []
        for position in search.positions:
            place = {**self.document, "position": lines.to_wire(position, encoding), **params}
            try:
                value = read(await self.ask(place))
            except ResponseError as exc:
                if exc.is_unknown_method:
                    raise
                refusal = refusal or exc
                continue
            if value:
                answer = self._answer(value, position, search)
                return replace(answer, name=search.name or lines.word(position))
            empty.append(value)
        if not empty:
            assert refusal is not None
            raise refusal
        return SymbolAnswer(empty[0], _absence(search))

    def _answer(self, value: T, position: Position, search: SymbolSearch) -> SymbolAnswer[T]:
        line = self.args.get("line")
        others = tuple(number for number in search.definitions if number != position.line)
        note = ""
        if others:
            note = (
                f"{search.describe(position)} It is also defined on {list_lines(others)}; "
                "give the line to ask about another."
            )
        elif search.warning or (line is not None and position.line != int(line) - 1):
            note = search.describe(position)
        return SymbolAnswer(value, note, others)

    async def _symbols(self) -> Any:
        """Return the server's symbols of the file if they help to find the name, or None."""
        method = METHODS["document_symbols"]
        if self.args.get("line") is not None or self.operation in ABOUT_USES:
            return None
        if not self.session.offers(method.capability, method.name):
            return None
        try:
            return await self.session.peer.request(
                method.name, self.document, self.limit_s * _SYMBOLS_TIME_SHARE
            )
        except (ResponseError, TimeoutError) as exc:
            log.info("a language server returned no symbols of %s: %r", self.path, exc)
            return None


def _absence(search: SymbolSearch) -> str:
    """Return where the server found nothing, for a name in several places, with the warning."""
    if len(search.positions) == 1:
        return search.warning
    places = list_lines(position.line for position in search.positions)
    sentence = f"The language server was asked about {search.name} on {places}."
    return f"{search.warning} {sentence}".strip()


class CodeQuestions:
    """Preparation of questions for the server that handles a file."""

    def __init__(self, servers: LanguageServers, settings: ToolSettings) -> None:
        self.servers = servers
        self.scope = WorkspaceScope(settings)
        self._coverage = NameCoverage(servers, self.scope)

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
        self,
        session: LspSession,
        server: LanguageServer,
        path: Path,
        args: Mapping[str, Any],
        call: CallContext,
    ) -> Question:
        """Open the file with its text on disk and return the question. Raises `ToolError`."""
        await refresh(session)
        language = self.servers.language(server.settings, path)
        text = await open_from_disk(session, path, language)
        if args["operation"] in _NEEDS_WHOLE_PROJECT:
            await session.read_project(path)
        coverage: Coverage | None = None
        name = name_of(args, TextLines(text)) if args["operation"] in _NEEDS_WHOLE_PROJECT else ""
        if name and session.indexes_compiled_files:
            effort = THOROUGH if args["operation"] == "rename" else QUICK
            coverage = await self._coverage.cover(session, server, path, name, effort, call)
            if args["operation"] not in _ABOUT_ALL_USES:
                coverage = Coverage()
        limit_s = self.servers.settings.timeout_s
        return Question(str(args["operation"]), path, text, args, session, limit_s, coverage)


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
