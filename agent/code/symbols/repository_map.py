"""Map of a project: its most used files and their definitions.

Tags of a file are cached until the file changes, even across restarts. A map is built within a
second; if that is too short, the map says so, and the remaining files are read in the background.
On a busy machine an answer waits longer, until it contains more files than the one before.
"""

import asyncio
import json
import os
import time
from collections import OrderedDict, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, suppress
from math import sqrt
from pathlib import Path

from agent.code.symbols.parsing import language_of
from agent.code.symbols.tag_cache import KnownTags, TagCache
from agent.code.symbols.tags import NO_TAGS, FileTags
from agent.errors import ToolError
from agent.records import frozen
from agent.security.taint.file_marks import ShownPaths
from agent.security.taint.taint import NOTHING, UNTRUSTED
from agent.text.visible import escape_line
from agent.tools.base import CallContext
from agent.tools.child_process import ENVIRONMENT, program
from agent.tools.file_views import Stamp, stamp
from agent.tools.files.search_backend import SearchBackend, ripgrep, run_search
from agent.tools.files.workspace_scope import VisibleFiles, WorkspaceScope
from agent.types import ToolResult

# PageRank over files, as in aider's repository map: https://aider.chat/2023/10/22/repomap.html
_DAMPING = 0.85
_ITERATIONS = 12
# A name with more definitions than this is ambiguous.
_MAX_DEFINERS = 20
_MAX_RARE_DEFINERS = 5


@frozen
class Ranking:
    """Weight of each file (the sum is 1) and of each definition by path and name."""

    files: Mapping[str, float]
    names: Mapping[tuple[str, str], float]


def rank(tags: Mapping[str, FileTags]) -> Ranking:
    """Rank files by references. May take half a second for 10,000 files."""
    definers: dict[str, list[str]] = defaultdict(list)
    for path, file_tags in tags.items():
        for name in {name for name, _, _ in file_tags.definitions}:
            definers[name].append(path)
    edges: dict[str, dict[str, float]] = {}
    uses: list[tuple[str, str, str, float]] = []
    for path, file_tags in tags.items():
        weights: dict[str, float] = defaultdict(float)
        for name, count in file_tags.names:
            places = definers.get(name, ())
            if not places or len(places) > _MAX_DEFINERS:
                continue
            weight = _weight(name, count, len(places))
            for place in places:
                if place != path:
                    weights[place] += weight
                    uses.append((path, place, name, weight))
        edges[path] = weights
    ranks = _page_rank(edges)
    totals = {path: sum(weights.values()) for path, weights in edges.items()}
    names: dict[tuple[str, str], float] = defaultdict(float)
    for source, place, name, weight in uses:
        names[place, name] += ranks[source] * weight / totals[source]
    return Ranking(ranks, names)


def _weight(name: str, count: int, definers: int) -> float:
    """Return the weight of a reference: high for a long, unique name, low for a private or common
    one."""
    weight = sqrt(count)
    if len(name) >= 8 and ("_" in name.strip("_") or name.lower() != name):
        weight *= 10
    if name.startswith("_") or definers > _MAX_RARE_DEFINERS:
        weight *= 0.1
    return weight / definers


def _page_rank(edges: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    count = len(edges)
    if not count:
        return {}
    ranks = dict.fromkeys(edges, 1 / count)
    shares = {
        path: [(place, weight / total) for place, weight in weights.items()]
        for path, weights in edges.items()
        if (total := sum(weights.values()))
    }
    for _ in range(_ITERATIONS):
        # Files without outgoing references spread their rank over all files.
        dangling = sum(value for path, value in ranks.items() if path not in shares)
        after = dict.fromkeys(edges, (1 - _DAMPING + _DAMPING * dangling) / count)
        for path, places in shares.items():
            value = _DAMPING * ranks[path]
            for place, share in places:
                after[place] += value * share
        ranks = after
    return ranks


@frozen
class MapTimeouts:
    """Time limits of an answer.

    It contains the files that were read within `answer_s`. If no file was read in that time, it
    waits for the first one, at most `first_file_s`, and then `answer_s` for more: the parser takes
    long to start on a busy machine.
    """

    answer_s: float = 0.7
    first_file_s: float = 10.0


# About 1,500 tokens.
MAX_CHARS = 6_000
MAX_FILES = 20_000
# Time of a background task; the next call continues with the remaining files.
_BACKGROUND_TIMEOUT_S = 120.0
_LIST_TIMEOUT_S = 10.0
_MAX_PROJECTS = 5
_MAX_DEFINITIONS = 8
# The cache is saved after this many new files; fewer are read again quickly.
_MIN_UNSAVED = 100


class _Project:
    """Known tags of the files below one folder."""

    def __init__(self) -> None:
        self.tags: KnownTags = {}
        # True once the cache was loaded.
        self.is_loaded = False
        self.unsaved = 0
        # Set when a file was read.
        self.has_progress = asyncio.Event()
        self.reading: asyncio.Task[None] | None = None
        self.ranking: tuple[frozenset[tuple[Path, Stamp]], Ranking] | None = None


class RepositoryMaps:
    """Maps of recently used folders. Belongs to one event loop at a time.

    `cache` stores the tags of large projects.
    """

    def __init__(self, cache: TagCache | None = None, timeouts: MapTimeouts | None = None) -> None:
        self._cache = cache
        self._timeouts = timeouts or MapTimeouts()
        self._projects: OrderedDict[Path, _Project] = OrderedDict()

    async def answer(self, folder: Path, call: CallContext, scope: WorkspaceScope) -> ToolResult:
        """Return the map of a folder with the files that the call may see. Raises `ToolError`."""
        began = time.monotonic()
        visible_files = VisibleFiles(scope, call, folder)
        backend = SearchBackend(folder, visible_files.root, ripgrep(visible_files.root))

        def find() -> list[tuple[Path, Stamp]]:
            with closing(backend.files()) as names:
                # ripgrep lists files in any order; the sort keeps files of the same rank stable.
                return sorted(_code_files(names, visible_files))

        files = await run_search(backend, find, _LIST_TIMEOUT_S)
        if not files:
            raise ToolError(f"There is no code in {folder} that Kore has a grammar for.")
        project = self._project(folder)
        missing = [path for path, now in files if not _is_known(project, path, now)]
        if missing and (project.reading is None or project.reading.done()):
            task = asyncio.create_task(self._refresh(folder, missing), name="repository map")
            project.reading = task
        if project.reading is not None:
            await self._wait_for_progress(project, project.reading, began)
        ready = [
            (path, file_stamp) for path, file_stamp in files if _is_known(project, path, file_stamp)
        ]
        if ready:
            text, marked = await asyncio.to_thread(_draw, project, ready, visible_files)
        else:
            text, marked = await asyncio.to_thread(_list_names, files, visible_files)
        notes = []
        if len(ready) < len(files):
            notes.append(
                f"… (of {len(files):,} files {len(ready):,} were looked at so far; ask again for "
                "the others)"
            )
        words = "\n".join([text, *notes]).strip()
        counts = f"{len(ready):,} of {len(files):,} files"
        return ToolResult(words, for_user=counts, taint=UNTRUSTED if marked else NOTHING)

    def known_files(self, folder: Path) -> Mapping[Path, FileTags]:
        """Return the known tags of files below a folder."""
        return {path: tags for path, (_, tags) in self._project(folder).tags.items()}

    async def _wait_for_progress(
        self, project: _Project, reading: "asyncio.Task[None]", began: float
    ) -> None:
        """Wait until all files were read, or the time is up and at least one file was read."""
        project.has_progress.clear()
        left_s = self._timeouts.answer_s - (time.monotonic() - began)
        await asyncio.wait({reading}, timeout=max(0.0, left_s))
        if reading.done() or project.has_progress.is_set():
            return
        first_file = asyncio.create_task(project.has_progress.wait(), name="repository map, wait")
        try:
            await asyncio.wait(
                {reading, first_file},
                timeout=self._timeouts.first_file_s,
                return_when=asyncio.FIRST_COMPLETED,
            )
        finally:
            first_file.cancel()
        if project.has_progress.is_set():
            await asyncio.wait({reading}, timeout=self._timeouts.answer_s)

    async def _refresh(self, folder: Path, paths: Sequence[Path]) -> None:
        """Read files that have changed since they were cached, and save the new tags."""
        project = self._project(folder)
        if self._cache is not None and not project.is_loaded:
            earlier_tags = await asyncio.to_thread(self._cache.load, folder)
            project.tags = {**earlier_tags, **project.tags}
            project.is_loaded = True
            stamps = await asyncio.to_thread(lambda: [stamp(path) for path in paths])
            pairs = zip(paths, stamps, strict=True)
            paths = [path for path, now in pairs if not _is_known(project, path, now)]
        if paths:
            await _read(project, paths)
        await self._save(folder, project)

    async def _save(self, folder: Path, project: _Project) -> None:
        if self._cache is not None and project.unsaved >= _MIN_UNSAVED:
            project.unsaved = 0
            await asyncio.to_thread(self._cache.save, folder, dict(project.tags))

    async def aclose(self) -> None:
        """Cancel background tasks and save their results."""
        tasks = [
            project.reading for project in self._projects.values() if project.reading is not None
        ]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        for folder, project in self._projects.items():
            await self._save(folder, project)
        self._projects.clear()

    def _project(self, folder: Path) -> _Project:
        project = self._projects.setdefault(folder, _Project())
        self._projects.move_to_end(folder)
        while len(self._projects) > _MAX_PROJECTS:
            _, oldest = self._projects.popitem(last=False)
            if oldest.reading is not None:
                oldest.reading.cancel()
        return project


def _code_files(names: Iterator[str], visible_files: VisibleFiles) -> Iterator[tuple[Path, Stamp]]:
    count = 0
    for name in names:
        language = language_of(Path(name))
        if language is None or not language.definitions:
            continue
        path = visible_files.find(name, None)
        if path is None or path.is_symlink():
            continue
        yield path, stamp(path)
        count += 1
        if count == MAX_FILES:
            return


def _is_known(project: _Project, path: Path, file_stamp: Stamp) -> bool:
    return path in project.tags and project.tags[path][0] == file_stamp


async def _read(project: _Project, paths: Sequence[Path]) -> None:
    """Read the tags of files in a separate process, until all are done or the time is up."""
    process = await asyncio.create_subprocess_exec(
        *program("agent.code.symbols.tags"),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env=ENVIRONMENT,
        cwd="/",
        limit=4_000_000,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    stamps = [stamp(path) for path in paths]
    requests = asyncio.create_task(
        _send_paths(process.stdin, paths), name="repository map, requests"
    )
    try:
        async with asyncio.timeout(_BACKGROUND_TIMEOUT_S):
            for path, file_stamp in zip(paths, stamps, strict=True):
                line = await process.stdout.readline()
                if not line:
                    # The process was killed for its resource use: leave this file out of the map.
                    project.tags[path] = (file_stamp, NO_TAGS)
                    return
                project.tags[path] = (file_stamp, FileTags.from_json(json.loads(line)[1]))
                project.unsaved += 1
                project.has_progress.set()
    except TimeoutError:
        return
    finally:
        requests.cancel()
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()
        await asyncio.wait({requests})


async def _send_paths(stdin: asyncio.StreamWriter, paths: Sequence[Path]) -> None:
    with suppress(ConnectionError):
        for path in paths:
            stdin.write(json.dumps(os.fspath(path)).encode() + b"\n")
            await stdin.drain()


def _draw(
    project: _Project, files: Sequence[tuple[Path, Stamp]], visible_files: VisibleFiles
) -> tuple[str, bool]:
    """Return the map within its size limit, and whether it contains untrusted text."""
    key = frozenset(files)
    if project.ranking is None or project.ranking[0] != key:
        tags = {os.fspath(path): project.tags[path][1] for path, _ in files}
        project.ranking = (key, rank(tags))
    ranking = project.ranking[1]
    lines: list[str] = []
    room, shown_paths = MAX_CHARS, ShownPaths(visible_files.root)
    for path, _ in sorted(files, key=lambda item: -ranking.files[os.fspath(item[0])]):
        block = _block(path, project.tags[path][1], ranking, visible_files)
        room -= sum(len(line) + 1 for line in block)
        if room < 0 and lines:
            break
        lines += block
        shown_paths.add(path)
    return "\n".join(lines), shown_paths.is_marked


def _list_names(
    files: Sequence[tuple[Path, Stamp]], visible_files: VisibleFiles
) -> tuple[str, bool]:
    """Return the paths of files within the map's size limit, and whether a name is untrusted."""
    lines: list[str] = []
    room, shown_paths = MAX_CHARS, ShownPaths(visible_files.root)
    for path, _ in files:
        line = escape_line(visible_files.display_path(path))
        room -= len(line) + 1
        if room < 0:
            break
        lines.append(line)
        shown_paths.add(path)
    return "\n".join(lines), shown_paths.is_marked


def _block(path: Path, tags: FileTags, ranking: Ranking, visible_files: VisibleFiles) -> list[str]:
    """Return a file with its most used definitions in order."""
    name = os.fspath(path)
    best = sorted(
        tags.definitions, key=lambda definition: -ranking.names.get((name, definition[0]), 0.0)
    )
    definitions = sorted(best[:_MAX_DEFINITIONS], key=lambda definition: definition[1])
    return [
        escape_line(visible_files.display_path(path)),
        *(f"  {line} {text}" for _, line, text in definitions),
    ]
