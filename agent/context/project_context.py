"""What the model is shown of the folder that somebody works in, and of files they point at.

It travels with the user message that brought it, and only what has changed since is told again.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

from agent.context.directory_tree import TreeLimits, tree
from agent.context.token_budget import estimate_text
from agent.prompts import render_prompt
from agent.records import frozen
from agent.security.taint.origin import TrustedOrigins
from agent.types import Taint


@frozen
class ContextUpdate:
    """A text for the model, what it brings, and how many files did not fit."""

    text: str
    taint: frozenset[Taint] = frozenset({"private"})
    evicted: int = 0


FILE_LIMIT_BYTES = 1_000_000

# Of the window, for all files that somebody points at.
FILE_SHARE = 0.25

# What tells most of a folder, as far as nobody points at more than fits: beginnings, in this order.
TELLING = (
    *("README.md", "README.rst", "README.txt", "README"),
    *("pyproject.toml", "package.json", "Cargo.toml", "go.mod", "pom.xml", "build.gradle"),
    *("Gemfile", "composer.json", "CMakeLists.txt", "Makefile", "setup.cfg", "tsconfig.json"),
)

TELLING_TOKENS = 2_000

_TELLING_EACH = 800


@dataclass(slots=True)
class ProjectContext:
    """`root` is the folder, or None without one; `focus` are files, the most wanted first, which
    together may have `limit` tokens; `clean` takes secrets out; `remark` is for the person.
    `origin` says which places are the owner's."""

    root: Path | None
    focus: Sequence[Path] = ()
    shape: TreeLimits = field(default_factory=TreeLimits)
    limit: int = 20_000
    clean: Callable[[str], str] = str
    remark: str = ""
    origin: TrustedOrigins = field(default_factory=TrustedOrigins)
    _told: dict[str, str] = field(default_factory=dict)
    _stats: dict[Path, tuple[tuple[int, int], str]] = field(default_factory=dict)

    def news(self, named: Sequence[Path] = ()) -> ContextUpdate | None:
        """What was not told yet, or has changed since; None when that is nothing. `named` are files
        and folders that somebody points at this once."""
        texts: list[str] = []
        taint: set[Taint] = {"private"}
        told: list[Path] = []
        folders = [path for path in named if path.is_dir()]
        for folder in folders if self.root is None else (self.root, *folders):
            shown = tree(folder, self.shape)
            if self._is_new("" if folder == self.root else str(folder), shown):
                texts.append(render_prompt("project_tree", root=folder, tree=shown or "(empty)"))
                if not self.origin.is_own(folder):
                    taint.add("untrusted")
        room, evicted = self.limit, 0
        for path in dict.fromkeys([*(path for path in named if path.is_file()), *self.focus]):
            text = self._read(path)
            size = estimate_text(text)
            if size > room:
                evicted += 1
                continue
            room -= size
            if self._is_new(str(path), text):
                texts.append(render_prompt("project_file", path=path, text=text))
                told.append(path)
        if self.root is not None:
            for path, text in self._telling(self.root, min(room, TELLING_TOKENS)):
                if self._is_new(str(path), text):
                    texts.append(render_prompt("project_beginning", path=path, text=text))
                    told.append(path)
        if not texts:
            return None
        if any(map(self.origin.is_untrusted, told)):
            taint.add("untrusted")
        return ContextUpdate(self.clean("\n\n".join(texts)), frozenset(taint), evicted)

    def _telling(self, root: Path, room: int) -> Iterator[tuple[Path, str]]:
        """The beginnings of README and configuration files, as many as fit in `room` tokens."""
        focus = set(self.focus)
        for name in TELLING:
            path = root / name
            if path in focus or path.is_symlink() or not path.is_file():
                continue
            text = _begun(self._read(path), min(room, _TELLING_EACH))
            room -= estimate_text(text)
            if room < 0:
                return
            if text:
                yield path, text

    def forget(self) -> None:
        """Whoever was told does not know it any more."""
        self._told.clear()

    def _is_new(self, name: str, text: str) -> bool:
        fingerprint = sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
        if self._told.get(name) == fingerprint:
            return False
        self._told[name] = fingerprint
        return True

    def _read(self, path: Path) -> str:
        """The file's text, read again only when it has changed; a lost one is empty."""
        try:
            found = path.stat()
            mark = (found.st_mtime_ns, found.st_size)
            seen = self._stats.get(path)
            if seen is None or seen[0] != mark:
                with path.open("rb") as file:
                    text = file.read(FILE_LIMIT_BYTES).decode("utf-8", "replace")
                seen = self._stats[path] = (mark, text)
        except OSError:
            return ""
        return seen[1]


def _begun(text: str, limit: int) -> str:
    """Whole lines from the beginning, in about `limit` tokens; the last line says that more
    follows."""
    if estimate_text(text) <= limit:
        return text.strip()
    shown: list[str] = []
    left = limit
    for line in text.splitlines():
        left -= estimate_text(line) + 1
        if left < 0:
            break
        shown.append(line)
    return "\n".join([*shown, "…"]).strip() if shown else ""
