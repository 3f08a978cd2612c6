"""Answers of language servers as text for the model."""

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path, PurePath
from typing import Any, Literal

from agent.code.lsp import operations
from agent.code.lsp.code_actions import code_actions
from agent.code.lsp.coverage import Coverage
from agent.code.lsp.documents import read_document
from agent.code.lsp.operations import METHODS
from agent.code.lsp.places import Place, PlaceListing, places_of
from agent.code.lsp.protocol.positions import split_lines
from agent.code.lsp.questions import (
    DIAGNOSE_TIMEOUT_S,
    CodeQuestions,
    Question,
    SymbolAnswer,
    refuse_guests,
)
from agent.code.lsp.server import LanguageServer
from agent.code.lsp.servers import LanguageServers
from agent.code.lsp.session import LspSession
from agent.code.symbols.outline import outline
from agent.code.symbols.parsing import language_of
from agent.errors import ToolError
from agent.security.taint.file_marks import is_marked
from agent.security.taint.taint import NOTHING, UNTRUSTED
from agent.settings import ToolSettings
from agent.tools.base import CallContext
from agent.tools.files.search_backend import SearchBackend, ripgrep, run_search
from agent.tools.files.workspace_scope import VisibleFiles, WorkspaceScope
from agent.types import ToolResult

_MAX_FILES = 20_000
# Functions that a name may stand for, such as overloads.
_MAX_CALL_ITEMS = 10
_LIST_TIMEOUT_S = 5.0


async def find_code_files(
    root: Path, call: CallContext, scope: WorkspaceScope, is_code: Callable[[Path], bool]
) -> list[Path]:
    """Return one code file per suffix, starting with the most frequent suffix.

    Raises `ToolError` when the folder cannot be listed in time.
    """
    visible_files = VisibleFiles(scope, call, root)
    backend = SearchBackend(root, visible_files.root, ripgrep(visible_files.root))

    def find() -> list[Path]:
        counts: Counter[str] = Counter()
        names: dict[str, str] = {}
        with closing(backend.files()) as listed:
            for number, name in enumerate(listed):
                suffix = PurePath(name).suffix.lower()
                path = visible_files.find(name, None) if is_code(Path(name)) else None
                if path is not None and not path.is_symlink():
                    counts[suffix] += 1
                    # Independent of the order of the listing.
                    names[suffix] = min(name, names.get(suffix, name))
                if number == _MAX_FILES:
                    break
        order = sorted(counts, key=lambda suffix: (-counts[suffix], suffix))
        return [root / names[suffix] for suffix in order]

    return await run_search(backend, find, _LIST_TIMEOUT_S)


class CodeAnswers:
    """Runner of the read-only operations."""

    def __init__(self, servers: LanguageServers, settings: ToolSettings) -> None:
        self.servers = servers
        self._questions = CodeQuestions(servers, settings)

    async def answer(self, args: Mapping[str, Any], call: CallContext) -> ToolResult:
        """Return the server's answer for the model. Raises `ToolError`."""
        operation = args["operation"]
        if operation == "workspace_symbols":
            return await self._workspace_symbols(args, call)
        path = self._questions.find_path(args, call)
        try:
            server = await self._questions.server(path, call)
        except ToolError:
            if operation != "document_symbols" or language_of(path) is None:
                raise
            return await asyncio.to_thread(_outline, path)

        async def work(session: LspSession) -> ToolResult:
            async with server.turn:
                question = await self._questions.question(session, server, path, args, call)
                return await self._answer(question, call)

        return await server.ask(operation, work, self.servers.settings.timeout_s)

    async def _answer(self, question: Question, call: CallContext) -> ToolResult:
        # An answer may quote any file of the project, an outline only its own file.
        is_outline = question.operation == "document_symbols"
        marked = await asyncio.to_thread(
            lambda: is_marked(question.path if is_outline else call.workspace)
        )
        match question.operation:
            case "diagnostics":
                return await _diagnostics(question, marked)
            case "document_symbols":
                lines = operations.outline(await question.ask(question.document))
                return _result(lines, question, marked)
            case "code_actions":
                lines = [title for title, _ in await code_actions(question)]
                return _result(lines, question, marked)
            case "hover" | "completion" | "signature":
                texts = await question.ask_about_symbol(_TEXT_READERS[question.operation])
                return _result(texts.value, question, marked, note=texts.note)
            case "incoming_calls" | "outgoing_calls":
                answer = await _calls(question)
            case "references":
                context = {"includeDeclaration": True}
                answer = await question.ask_about_symbol(places_of, context=context)
            case _:
                answer = await question.ask_about_symbol(places_of)
        listing = PlaceListing(self._questions.scope, call, question.session.encoding)
        lines = await asyncio.to_thread(listing.write, answer.value)
        answered = {place.path for place in answer.value}
        coverage = question.coverage or Coverage()
        gap = await asyncio.to_thread(coverage.note, answered, listing)
        # The listing knows exactly which files its lines come from.
        marked = listing.is_marked or await asyncio.to_thread(is_marked, question.path)
        return _result(lines, question, marked, note="\n".join(filter(None, (answer.note, gap))))

    async def _workspace_symbols(self, args: Mapping[str, Any], call: CallContext) -> ToolResult:
        query = args.get("query") or args.get("symbol")
        if not query:
            raise ToolError("workspace_symbols needs a query: a part of a name.")
        path = await self._path_of_project(args, call)
        server = await self._any_server(path, call)

        async def work(session: LspSession) -> ToolResult:
            async with server.turn:
                if path is not None and path.is_file():
                    await self._questions.question(session, server, path, args, call)
                    await session.read_project(path)
                method = METHODS["workspace_symbols"]
                if not session.offers(method.capability, method.name):
                    raise ToolError("This language server has no workspace_symbols.")
                limit_s = self.servers.settings.timeout_s
                params = {"query": query}
                matches = await session.peer.request(method.name, params, limit_s)
                if await session.finish_loading():
                    matches = await session.peer.request(method.name, params, limit_s)
            listing = PlaceListing(self._questions.scope, call, session.encoding)
            places = operations.symbol_places(matches)
            lines = await asyncio.to_thread(listing.write, places)
            text = "\n".join(lines) or f"No symbol matches {query[:80]!r}."
            return ToolResult(text, taint=UNTRUSTED if listing.is_marked else NOTHING)

        return await server.ask("workspace_symbols", work, self.servers.settings.timeout_s)

    async def _path_of_project(self, args: Mapping[str, Any], call: CallContext) -> Path | None:
        """Return the file that decides the language.

        This is the named file, or else a file of the most frequent language that has a server.
        Returns None when a server of the project is already running. Raises `ToolError`.
        """
        if args.get("path"):
            return self._questions.find_path(args, call)
        root = await asyncio.to_thread(call.workspace.resolve)
        if any(server.folder.is_relative_to(root) for server in self.servers.running):
            return None
        examples = await find_code_files(root, call, self._questions.scope, self._is_served)
        for path in examples:
            if await self.servers.find(path, root) is not None:
                return path
        if examples:
            raise ToolError(self.servers.explain_absence(examples[0]))
        raise ToolError(
            f"In {root} there is no code that a language server is known for; give the path of a "
            "file, which says which language is meant."
        )

    def _is_served(self, path: Path) -> bool:
        return bool(self.servers.candidates(path))

    async def _any_server(self, path: Path | None, call: CallContext) -> LanguageServer:
        """Return the server of a file, by default the first running server of the project."""
        if path is not None:
            return await self._questions.server(path, call)
        refuse_guests(call)
        root = await asyncio.to_thread(call.workspace.resolve)
        for server in self.servers.running:
            if server.folder.is_relative_to(root):
                return server
        raise ToolError("The language server of this project has just ended; ask again.")


def _outline(path: Path) -> ToolResult:
    """Return the symbols of a file that no server handles. Raises `ToolError`."""
    text, _ = read_document(path)
    return ToolResult(outline(text, path), taint=UNTRUSTED if is_marked(path) else NOTHING)


async def _diagnostics(question: Question, marked: bool) -> ToolResult:
    diagnostics = await question.session.diagnose(question.path, DIAGNOSE_TIMEOUT_S)
    if diagnostics is None:
        raise ToolError("The language server has not reported its results yet; ask again.")
    nothing = f"Nothing is wrong in {question.path}."
    return _result(list(map(str, diagnostics)), question, marked, nothing=nothing)


async def _calls(question: Question) -> SymbolAnswer[list[Place]]:
    """Return the callers or callees of the function at a place."""
    answer = await question.ask_about_symbol(_items)
    key: Literal["from", "to"] = "from" if question.operation == "incoming_calls" else "to"
    method = "incomingCalls" if key == "from" else "outgoingCalls"
    places = []
    for item in answer.value[:_MAX_CALL_ITEMS]:
        calls = await question.session.peer.request(
            f"callHierarchy/{method}", {"item": item}, question.limit_s
        )
        places += operations.call_places(calls, key)
    return replace(answer, value=places)


def _items(result: Any) -> list[Any]:
    return result if isinstance(result, list) else []


def _hover_lines(result: Any) -> list[str]:
    text = operations.hover_text(result)
    return split_lines(text) if text else []


_TEXT_READERS: Mapping[str, Callable[[Any], list[str]]] = {
    "hover": _hover_lines,
    "completion": operations.completions,
    "signature": operations.signatures,
}


def _result(
    lines: Sequence[str],
    question: Question,
    marked: bool,
    *,
    nothing: str = "Nothing was found.",
    note: str = "",
) -> ToolResult:
    text = "\n".join(lines)
    count = len(split_lines(text))
    for_user = f"{question.operation}: {count} {'line' if count == 1 else 'lines'}"
    for_model = "\n".join(filter(None, [text or nothing, note]))
    return ToolResult(
        for_model,
        for_user=for_user if text else for_model,
        taint=UNTRUSTED if marked else NOTHING,
    )
