"""A map of a project: its most used files, and what they define.

What a file holds is looked at once, as long as the file stays what it is, also over restarts. A
map is drawn within a second; where that was too short, it says so, and the rest is looked at in the
background.
"""

import asyncio
import json
import os
import time
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path

from agent.code.symbols.ranking import Ranking, rank
from agent.code.symbols.tag_cache import KnownTags, TagCache
from agent.code.symbols.tags import NO_TAGS, FileTags
from agent.errors import ToolError
from agent.security.taint.file_marks import ShownPaths
from agent.security.taint.taint import NOTHING, UNTRUSTED
from agent.text.visible import escape_line
from agent.tools.base import CallContext
from agent.tools.child_process import ENVIRONMENT, program
from agent.tools.file_views import Stamp, stamp
from agent.tools.files.search_backend import SearchBackend, ripgrep, run_search
from agent.tools.files.workspace_scope import VisibleFiles, WorkspaceScope
from agent.types import ToolResult

LIMIT_S = 0.7
# About 1,500 tokens.
LIMIT_CHARS = 6_000
MOST_FILES = 20_000
# In the background; what is left then is looked at with the next question.
_BACKGROUND_S = 120.0
_LIST_S = 10.0
_MOST_ROOTS = 5
_MOST_DEFINITIONS = 8
# So many files are looked at again in no time: what is known is kept when more were looked at.
_KEPT_FROM = 100


class _Project:
    """What is known of the files below one folder."""

    def __init__(self) -> None:
        self.tags: KnownTags = {}
        # Whether what was kept is known, and how many files were looked at since.
        self.is_loaded = False
        self.unkept = 0
        self.reading: asyncio.Task[None] | None = None
        self.ranking: tuple[frozenset[tuple[Path, Stamp]], Ranking] | None = None


class RepositoryMaps:
    """Of the folders that were asked about last; `cache` keeps what was found in large ones.
    Belongs to one event loop at a time."""

    def __init__(self, cache: TagCache | None = None) -> None:
        self._cache = cache
        self._projects: OrderedDict[Path, _Project] = OrderedDict()

    async def answer(self, folder: Path, call: CallContext, scope: WorkspaceScope) -> ToolResult:
        """The map of a folder, of the files that the call may see. Raises `ToolError`."""
        began = time.monotonic()
        sight = VisibleFiles(scope, call, folder)
        seeker = SearchBackend(folder, sight.root, ripgrep(sight.root))

        def find() -> list[tuple[Path, Stamp]]:
            with closing(seeker.files()) as names:
                # ripgrep lists in any order; files of the same rank keep theirs.
                return sorted(_code_files(names, sight))

        files = await run_search(seeker, find, _LIST_S)
        if not files:
            raise ToolError(f"There is no code in {folder} that Kore has a grammar for.")
        project = self._project(folder)
        missing = [path for path, now in files if not _is_known(project, path, now)]
        if missing and (project.reading is None or project.reading.done()):
            task = asyncio.create_task(self._look(folder, missing), name="repository map")
            project.reading = task
        if project.reading is not None:
            left_s = max(0.1, LIMIT_S - (time.monotonic() - began))
            await asyncio.wait({project.reading}, timeout=left_s)
        ready = [
            (path, file_stamp) for path, file_stamp in files if _is_known(project, path, file_stamp)
        ]
        text, marked = await asyncio.to_thread(_draw, project, ready, sight)
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
        """What is known of the files below a folder."""
        return {path: tags for path, (_, tags) in self._project(folder).tags.items()}

    async def _look(self, folder: Path, paths: Sequence[Path]) -> None:
        """Look at files that have changed since they were kept, and keep what is found."""
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
        await self._keep(folder, project)

    async def _keep(self, folder: Path, project: _Project) -> None:
        if self._cache is not None and project.unkept >= _KEPT_FROM:
            project.unkept = 0
            await asyncio.to_thread(self._cache.save, folder, dict(project.tags))

    async def aclose(self) -> None:
        """Look at nothing any more."""
        tasks = [one.reading for one in self._projects.values() if one.reading is not None]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        for folder, project in self._projects.items():
            await self._keep(folder, project)
        self._projects.clear()

    def _project(self, folder: Path) -> _Project:
        project = self._projects.setdefault(folder, _Project())
        self._projects.move_to_end(folder)
        while len(self._projects) > _MOST_ROOTS:
            _, oldest = self._projects.popitem(last=False)
            if oldest.reading is not None:
                oldest.reading.cancel()
        return project


def _code_files(names: Iterator[str], sight: VisibleFiles) -> Iterator[tuple[Path, Stamp]]:
    from agent.code.symbols.parsing import language_of

    count = 0
    for name in names:
        language = language_of(Path(name))
        if language is None or not language.definitions:
            continue
        path = sight.find(name, None)
        if path is None or path.is_symlink():
            continue
        yield path, stamp(path)
        count += 1
        if count == MOST_FILES:
            return


def _is_known(project: _Project, path: Path, file_stamp: Stamp) -> bool:
    return path in project.tags and project.tags[path][0] == file_stamp


async def _read(project: _Project, paths: Sequence[Path]) -> None:
    """Look at files in a process of its own, until all are done or time is over."""
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
    asking = asyncio.create_task(_ask(process.stdin, paths), name="repository map, questions")
    try:
        async with asyncio.timeout(_BACKGROUND_S):
            for path, file_stamp in zip(paths, stamps, strict=True):
                line = await process.stdout.readline()
                if not line:
                    # It was ended for what it used up: this file has no place on the map.
                    project.tags[path] = (file_stamp, NO_TAGS)
                    return
                project.tags[path] = (file_stamp, FileTags.from_json(json.loads(line)[1]))
                project.unkept += 1
    except TimeoutError:
        return
    finally:
        asking.cancel()
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()
        await asyncio.wait({asking})


async def _ask(questions: asyncio.StreamWriter, paths: Sequence[Path]) -> None:
    with suppress(ConnectionError):
        for path in paths:
            questions.write(json.dumps(os.fspath(path)).encode() + b"\n")
            await questions.drain()


def _draw(
    project: _Project, files: Sequence[tuple[Path, Stamp]], sight: VisibleFiles
) -> tuple[str, bool]:
    """The map within its tokens, and whether strangers' words are on it."""
    key = frozenset(files)
    if project.ranking is None or project.ranking[0] != key:
        tags = {os.fspath(path): project.tags[path][1] for path, _ in files}
        project.ranking = (key, rank(tags))
    ranking = project.ranking[1]
    lines: list[str] = []
    room, shown_paths = LIMIT_CHARS, ShownPaths(sight.root)
    for path, _ in sorted(files, key=lambda one: -ranking.files[os.fspath(one[0])]):
        block = _block(path, project.tags[path][1], ranking, sight)
        room -= sum(len(line) + 1 for line in block)
        if room < 0 and lines:
            break
        lines += block
        shown_paths.add(path)
    return "\n".join(lines), shown_paths.is_marked


def _block(path: Path, tags: FileTags, ranking: Ranking, sight: VisibleFiles) -> list[str]:
    """A file, and those of its definitions that are used most, in their order."""
    name = os.fspath(path)
    best = sorted(tags.definitions, key=lambda one: -ranking.names.get((name, one[0]), 0.0))
    definitions = sorted(best[:_MOST_DEFINITIONS], key=lambda one: one[1])
    return [
        escape_line(sight.display_path(path)),
        *(f"  {line} {text}" for _, line, text in definitions),
    ]
