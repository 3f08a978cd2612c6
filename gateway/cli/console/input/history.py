"""Input history, with the lines of the current folder first."""

import os
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from prompt_toolkit.history import History

_LIMIT_BYTES = 1_000_000
_MAX_LINES = 5_000
Fold = Callable[[str], str]
# The folder ("" if unknown) and the input.
_Entry = tuple[str, str]


class ConsoleHistory(History):
    """Input history in a 0600 file that all folders share.

    `whole` expands placeholders, and `fold` returns the display form of a line. Write errors are
    ignored, because they must not prevent the message from being sent.
    """

    def __init__(self, path: Path, folder: str, fold: Fold = str, whole: Fold = str) -> None:
        super().__init__()
        self._path = path
        self.folder = folder
        self._fold = fold
        self._whole = whole

    def load_history_strings(self) -> Iterable[str]:
        """Return distinct lines, newest first: lines of this folder, then of all others."""
        entries = list(self._entries())[-_MAX_LINES:]
        own = [text for folder, text in reversed(entries) if folder == self.folder]
        others = [text for folder, text in reversed(entries) if folder != self.folder]
        return [self._fold(text) for text in dict.fromkeys([*own, *others])]

    def store_string(self, string: str) -> None:
        with suppress(OSError):
            self._shorten()
            lines = "".join(f"+{line}\n" for line in self._whole(string).split("\n"))
            folder = self.folder.replace("\n", " ")
            text = f"\n# {time.time():.0f} {folder}\n{lines}"
            # Use a single write, because several consoles may have the file open.
            fd = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            try:
                os.write(fd, text.encode("utf-8", "replace"))
            finally:
                os.close(fd)

    def _entries(self) -> Iterator[_Entry]:
        with suppress(OSError):
            yield from _parse(self._path.read_text("utf-8", errors="replace"))

    def _shorten(self) -> None:
        """Reduce a file that is too long to its newer half."""
        with suppress(FileNotFoundError):
            if os.path.getsize(self._path) <= _LIMIT_BYTES:
                return
            text = self._path.read_bytes()[-_LIMIT_BYTES // 2 :]
            _, mark, rest = text.partition(b"\n# ")
            new = self._path.with_name(f"{self._path.name}.{os.getpid()}")
            fd = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with os.fdopen(fd, "wb") as file:
                file.write(mark + rest)
            os.replace(new, self._path)


def _parse(text: str) -> Iterator[_Entry]:
    folder, lines = "", list[str]()
    for line in [*text.split("\n"), "# end"]:
        if line.startswith("+"):
            lines.append(line[1:])
        elif lines:
            yield folder, "\n".join(lines)
            lines = []
        if line.startswith("# "):
            folder = line.split(" ", 1)[1].partition(" ")[2]
