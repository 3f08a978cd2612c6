"""Fuzzy file search in a folder, fast even in very large folders."""

import asyncio
import os
import re
import time
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

from agent.errors import ToolError

_FRESH_S = 5.0
_LOOKING_S = 20.0
_MOST = 200_000
_MAX_FILES = 2_000


class FileIndex:
    """Index of a folder's files for fuzzy search (`find`).

    The folder is read in the background, and again once the list is too old. Files that git ignores
    and `blocked` paths are omitted.
    """

    def __init__(self, folder: Path, blocked: Sequence[str] = ()) -> None:
        self._folder = folder
        self._blocked = blocked
        self._index = _Index(())
        self._read_at = -_FRESH_S
        self._reading: asyncio.Task[None] | None = None

    async def find(self, letters: str, most: int = 30) -> list[str]:
        """Return paths, best match first; folders end with a slash.

        For a path outside of the folder (`/`, `~/`, `../`), return the names with this prefix.
        """
        if letters.startswith(("/", "~", "./", "../")):
            return await asyncio.to_thread(self._list_folder, letters, most)
        await self._refresh()
        return await asyncio.to_thread(self._matching, self._index, letters, most)

    async def close(self) -> None:
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.wait({self._reading})

    async def _refresh(self) -> None:
        if self._reading is None and time.monotonic() - self._read_at > _FRESH_S:
            self._reading = asyncio.create_task(self._read(), name="files of the folder")
        if self._reading is not None and not self._index.paths:
            # The first caller waits for the list; later callers get the older list.
            await asyncio.wait({self._reading})

    async def _read(self) -> None:
        from agent.tools.files.search_backend import SearchBackend, ripgrep, run_search

        seeker = SearchBackend(self._folder, self._folder, ripgrep(self._folder))
        try:
            self._index = await run_search(
                seeker, lambda: _Index(tuple(islice(seeker.files(), _MOST))), _LOOKING_S
            )
        except ToolError:
            pass  # A missing or unreadable folder has no files.
        finally:
            self._read_at = time.monotonic()
            self._reading = None

    def _matching(self, index: "_Index", letters: str, most: int) -> list[str]:
        paths = (path for path in index.matching(letters) if not self._is_blocked(path))
        return list(islice(paths, most))

    def _is_blocked(self, path: str) -> bool:
        from agent.security.files.paths import blocked_entry

        return bool(blocked_entry(self._folder / path, self._folder, self._blocked))

    def _list_folder(self, letters: str, most: int) -> list[str]:
        above, slash, prefix = letters.rpartition("/")
        folder = self._folder / Path(f"{above}{slash}").expanduser()
        paths = []
        try:
            with os.scandir(folder) as entries:
                for entry in islice(entries, _MAX_FILES):
                    is_hidden = entry.name.startswith(".") and not prefix.startswith(".")
                    if entry.name.startswith(prefix) and not is_hidden:
                        paths.append(f"{above}{slash}{entry.name}" + "/" * entry.is_dir())
        except OSError:
            return []
        return sorted(path for path in paths if not self._is_blocked(path))[:most]


class _Index:
    """Sorted paths of files and their parent folders, also in lower case."""

    def __init__(self, files: Sequence[str]) -> None:
        folders = {above for path in files for above in _folders(path)}
        printable = (path for path in {*files, *folders} if path.isprintable())
        self.paths = sorted(printable, key=lambda path: (path.count("/"), path))
        self._low = [path.casefold() for path in self.paths]

    def matching(self, letters: str) -> Iterator[str]:
        """Yield each matching path once, short paths first.

        The order is: names with this prefix, names or paths with this substring, and paths with
        these characters in this order.
        """
        folded = letters.casefold()
        yielded = set[int]()
        for places in (
            self._beginning(folded),
            self._containing(folded),
            self._with_letters(folded),
        ):
            for place in places:
                if place not in yielded:
                    yielded.add(place)
                    yield self.paths[place]

    def _beginning(self, folded: str) -> Iterator[int]:
        inside = f"/{folded}"
        for place, path in enumerate(self._low):
            if path.startswith(folded) or path.rfind(inside) == path.rstrip("/").rfind("/") >= 0:
                yield place

    def _containing(self, folded: str) -> Iterator[int]:
        ends = [n for n, path in enumerate(self._low) if folded in path]
        names = (n for n in ends if folded in self._low[n].rstrip("/").rpartition("/")[2])
        yield from names
        yield from ends

    def _with_letters(self, folded: str) -> Iterator[int]:
        # Each gap excludes the next letter, so that matching is linear in the length of the paths.
        pattern = re.compile("".join(f"[^{re.escape(item)}]*{re.escape(item)}" for item in folded))
        hits = [n for n, path in enumerate(self._low) if pattern.match(path)]
        yield from sorted(hits, key=lambda n: len(self._low[n]))


def _folders(path: str) -> Iterator[str]:
    at = path.find("/")
    while at >= 0:
        yield path[: at + 1]
        at = path.find("/", at + 1)
