"""Files that use a name and that a server with an index of compiled files may not know."""

import asyncio
import re
import time
from collections.abc import Collection, Sequence
from contextlib import closing
from itertools import islice
from pathlib import Path

from agent.code.lsp.documents import open_from_disk
from agent.code.lsp.places import Place, PlaceListing
from agent.code.lsp.server import LanguageServer
from agent.code.lsp.servers import LanguageServers
from agent.code.lsp.session import LspSession
from agent.errors import ToolError
from agent.records import frozen
from agent.tools.base import CallContext
from agent.tools.files.search_backend import Query, SearchBackend, ripgrep, run_search
from agent.tools.files.workspace_scope import VisibleFiles, WorkspaceScope


@frozen
class Effort:
    """Number of files that are opened, so that the server reads them, and the time to read all.

    The time also limits the wait for the index.
    """

    max_opened: int
    timeout_s: float


QUICK = Effort(20, 6.0)
# An incomplete rename leaves a project that does not compile.
THOROUGH = Effort(40, 40.0)
_SEARCH_TIMEOUT_S = 5.0
_MAX_MATCHES = 5_000
_MAX_PER_FILE = 50
_MAX_SHOWN = 20
_INCOMPLETE = "The answer may be incomplete:"
_NO_DATABASE = "the project has no compilation database (compile_commands.json)."


@frozen
class Coverage:
    """Lines with a name in files that an answer about it may lack, and the reason."""

    reason: str = ""
    matches: tuple[Place, ...] = ()

    def note(self, answered: Collection[Path], listing: PlaceListing) -> str:
        """Return the reason with the lines in files that an answer lacks, or an empty text.

        Blocks.
        """
        missing = [place for place in self.matches if place.path not in answered]
        lines = listing.write(missing[:_MAX_SHOWN])
        if not lines:
            return ""
        if len(missing) > _MAX_SHOWN:
            lines.append(f"… ({len(missing) - _MAX_SHOWN:,} more)")
        return "\n".join(
            (
                f"{self.reason} Lines with the name in files that it does not contain:",
                *lines,
            )
        )


class NameCoverage:
    """Search for files that a server's index lacks."""

    def __init__(self, servers: LanguageServers, scope: WorkspaceScope) -> None:
        self._servers, self._scope = servers, scope

    async def cover(
        self,
        session: LspSession,
        server: LanguageServer,
        path: Path,
        name: str,
        effort: Effort,
        call: CallContext,
    ) -> Coverage:
        """Open the files that contain a name and that the index lacks, so that an answer has them.

        `path` is the open file that is asked about. The index contains the files of the compilation
        database, once it is finished, and the headers that they include.
        """
        compiled: frozenset[Path] | None = None
        if server.database is not None:
            compiled = await asyncio.to_thread(server.database.compiled_files, path)
        matches = await self._find_matches(name, server.settings.extensions, call)
        paths = list(dict.fromkeys(place.path for place in matches if place.path != path))
        if compiled is not None and len(paths) > effort.max_opened:
            # An index takes long on a busy machine, so few files are better opened.
            if not await session.finish_indexing(effort.timeout_s):
                return Coverage(f"{_INCOMPLETE} the index is not finished.", tuple(matches))
            paths = [path for path in paths if not (path in compiled or _is_header(path))]
        unread = await self._open(session, server, paths, effort)
        if compiled is None:
            # Without its includes, a file that was read may still have unknown uses.
            return Coverage(f"{_INCOMPLETE} {_NO_DATABASE}", tuple(matches))
        unread_matches = tuple(place for place in matches if place.path in unread)
        reason = f"{_INCOMPLETE} the language server has not read all files with the name."
        return Coverage(reason, unread_matches)

    async def _find_matches(
        self, name: str, extensions: Sequence[str], call: CallContext
    ) -> list[Place]:
        """Return the lines that contain a name as a word, in files that the call may read."""
        root = call.workspace
        visible_files = VisibleFiles(self._scope, call, root)
        backend = SearchBackend(root, visible_files.root, ripgrep(visible_files.root))
        query = Query(rf"\b{re.escape(name)}\b", most=_MAX_PER_FILE)

        def find() -> list[Place]:
            places = []
            with closing(backend.lines(query)) as lines:
                for line in islice(lines, _MAX_MATCHES):
                    path = visible_files.find(line.path, None)
                    if path is not None and path.suffix.lower() in extensions:
                        places.append(Place(path, line.number - 1, 0))
            return places

        return await run_search(backend, find, _SEARCH_TIMEOUT_S)

    async def _open(
        self, session: LspSession, server: LanguageServer, paths: Sequence[Path], effort: Effort
    ) -> set[Path]:
        """Open files until the time is up, and return those that the server did not read."""
        unread = set(paths)
        opened = []
        for path in paths[: effort.max_opened]:
            try:
                if path not in session.documents:
                    await open_from_disk(
                        session, path, self._servers.language(server.settings, path)
                    )
                opened.append(path)
            except ToolError:
                # It may have been deleted, or be too large.
                continue
        until = time.monotonic() + effort.timeout_s
        for path in opened:
            if (left_s := until - time.monotonic()) <= 0:
                break
            if await session.diagnose(path, left_s) is not None:
                unread.discard(path)
        return unread


def _is_header(path: Path) -> bool:
    return path.suffix.startswith((".h", ".H"))
