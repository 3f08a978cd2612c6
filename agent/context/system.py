"""The system prompt, made of the workspace's files.

It is byte-identical from turn to turn as long as the files are: nothing that moves belongs here.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from stat import S_ISREG

from agent.prompts import fill

LIMIT_CHARS = 20_000
_FILES_KEPT = 64
_FILES = ("IDENTITY.md", "AGENT.md", "SOUL.md", "USER.md")


@dataclass(frozen=True, slots=True)
class SystemPrompt:
    """The text, and a sentence for each file that was too long to go in whole."""

    text: str
    notices: tuple[str, ...] = ()


class Workspace:
    """Reads the files that make up the system prompt, each only when it has changed.

    USER.md and memory/MEMORY.md are the owner's: a prompt for somebody else holds neither, but
    that person's own memory file.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._seen: dict[Path, tuple[tuple[int, int], str]] = {}

    @property
    def owner_memory(self) -> Path:
        return self.folder / "memory" / "MEMORY.md"

    def system_prompt(self, memory: Path, root: Path) -> SystemPrompt:
        """`memory` is the memory file of whoever speaks, `root` is where relative paths start."""
        owner = memory == self.owner_memory
        names = _FILES if owner else tuple(name for name in _FILES if name != "USER.md")
        notices: list[str] = []
        texts = list(self._texts([*(self.folder / name for name in names), memory], notices))
        text = fill("system", files="\n\n".join(texts), root=root).strip()
        return SystemPrompt(text, tuple(notices))

    def _texts(self, paths: list[Path], notices: list[str]) -> Iterator[str]:
        for path in paths:
            text = self._read(path)
            if len(text) > LIMIT_CHARS:
                notices.append(
                    f"{path.name} is longer than {LIMIT_CHARS:,} characters; only its beginning "
                    "is used. Shorten it."
                )
                text = text[:LIMIT_CHARS] + "\n…"
            if text:
                yield text

    def _read(self, path: Path) -> str:
        """The file's text; a missing one is empty, and so is one that is no regular file."""
        try:
            found = path.stat()
            mark = (found.st_mtime_ns, found.st_size)
            seen = self._seen.get(path)
            if seen is None or seen[0] != mark:
                if len(self._seen) >= _FILES_KEPT:
                    del self._seen[next(iter(self._seen))]
                seen = self._seen[path] = (mark, _beginning(path) if S_ISREG(found.st_mode) else "")
        except OSError:
            self._seen.pop(path, None)
            return ""
        return seen[1]


def _beginning(path: Path) -> str:
    """As much of the file as may be used, and a little more when there is more."""
    with path.open(encoding="utf-8", errors="replace") as file:
        return file.read(LIMIT_CHARS + 1).strip()
