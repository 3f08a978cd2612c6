"""The system prompt, made of the workspace's files.

It is byte-identical from turn to turn as long as the files are: nothing that moves belongs here.
"""

import os
from collections.abc import Iterator, Sequence
from datetime import datetime
from functools import cache
from pathlib import Path
from stat import S_ISREG

from agent.context.project.instructions import Instructions
from agent.context.prompt_file import LIMIT_CHARS, read_prompt_file
from agent.prompts import load_prompt, render_prompt
from agent.records import frozen
from agent.security.taint.file_marks import FolderTimes, is_marked
from agent.security.taint.origin import TrustedOrigins, is_unconfirmed, unconfirmed_notice
from agent.security.taint.taint import NOTHING, PRIVATE, UNTRUSTED
from agent.types import Taint

_MOST_FILES = 64

_SHARED = ("IDENTITY.md", "AGENT.md", "SOUL.md")

_FILES = (*_SHARED, "USER.md")


@frozen
class SystemPrompt:
    """The text, and a sentence for each file that was left out or cut. `instructions` is the part
    of it that the project brought."""

    text: str
    notices: tuple[str, ...] = ()
    instructions: str = ""


class Workspace:
    """Reads the files that make up the system prompt, each only when it has changed.

    USER.md and memory/MEMORY.md are the owner's: a prompt for another person holds neither, but
    that person's own memory file. `trusted` are folders whose files are the owner's word, too.
    """

    def __init__(
        self, folder: Path, trusted: Sequence[Path] = (), *, is_all_project: bool = False
    ) -> None:
        self.folder = folder
        self._is_all_project = is_all_project
        self.origin = TrustedOrigins((folder.resolve(), *trusted))
        self._instructions = Instructions(folder, self.origin)
        self._cache: dict[Path, tuple[tuple[int, int], str]] = {}

    @property
    def owner_memory(self) -> Path:
        return self.folder / "memory" / "MEMORY.md"

    @property
    def _profile(self) -> Path:
        return self.folder / "USER.md"

    def system_prompt(
        self,
        memory: Path,
        root: Path,
        *,
        owner: bool,
        persona: str | None = None,
        memory_text: str | None = None,
        environment: str = "",
    ) -> SystemPrompt:
        """`memory` is the memory file of the speaker, `root` is where relative paths start;
        `owner` says that it is the owner in private. `memory_text` is what `memory_snapshot` gave
        at the beginning of the session; without it the file is read. `persona` says how to speak
        in this chat: a text, or a file of the workspace if it ends in `.md`. `environment` is what
        `describe_environment` says. With a project comes a section on working with code; files
        that are not filled in stay out."""
        names = _FILES if owner else _SHARED
        notices: list[str] = []
        paths = [self.folder / name for name in names]
        if memory_text is None:
            paths.append(memory)
        texts = [*self._texts(paths, notices), *filter(None, [memory_text])]
        if persona is not None:
            is_file = persona.endswith(".md")
            persona_texts = self._texts([self.folder / persona], notices) if is_file else [persona]
            texts += [render_prompt("persona", persona=text) for text in persona_texts]
        if self.is_project(root):
            texts.append(load_prompt("code"))
        instructions = self._instructions.read(root)
        if instructions.text:
            texts.append(instructions.text)
            notices += instructions.notices
        text = render_prompt("system", files="\n\n".join(texts), root=root).strip()
        whole = f"{text}\n\n{environment}".strip()
        return SystemPrompt(whole, tuple(notices), instructions.text)

    def is_project(self, root: Path) -> bool:
        """Whether relative paths start in a project folder, not in the workspace, or that is
        one."""
        if self._is_all_project:
            return True
        # As texts: every turn asks, and `Path` takes several times as long.
        return not f"{root}/".startswith(f"{self.folder}/".replace("//", "/"))

    def memory_snapshot(self, memory: Path) -> str | None:
        """A memory file as the prompt holds it; None for one that it leaves out for now."""
        return None if is_unconfirmed(memory, self.folder) else "".join(self._texts([memory], []))

    def text_of(self, memory: Path) -> str:
        """A memory file, as far as the prompt holds it."""
        return self._read(memory)[:LIMIT_CHARS]

    def taint(self, memory: Path, root: Path, persona: str | None = None) -> frozenset[Taint]:
        """What the prompt brings into a conversation; files that it leaves out bring nothing."""
        taint = PRIVATE if self.is_personal(memory) else NOTHING
        strange = False
        if persona is not None and persona.endswith(".md"):
            path = self._inside(self.folder / persona)
            if path is not None and not is_unconfirmed(path, self.folder):
                strange = is_marked(path)
        # In a folder that is not the owner's all that is met is a stranger's, names of files too.
        strange |= not self.origin.is_own(root)
        taint |= UNTRUSTED if strange else NOTHING
        return taint | self._instructions.read(root).taint

    def is_personal(self, memory: Path) -> bool:
        """Whether the prompt tells anything of a person: an unfilled profile and an empty memory
        do not."""
        profiles = [self._profile] if memory == self.owner_memory else []
        return any(_has_content(self._read(path)) for path in (*profiles, memory))

    def _texts(self, paths: list[Path], notices: list[str]) -> Iterator[str]:
        times: FolderTimes = {}
        for path in paths:
            if is_unconfirmed(path, self.folder, times):
                notices.append(unconfirmed_notice(path))
                continue
            text = self._read(path)
            if self._leads_out(path):
                notices.append(
                    f"{path.name} is a link that leads out of the workspace, so it is not used; "
                    "put a file in its place."
                )
            if len(text) > LIMIT_CHARS:
                notices.append(
                    f"{path.name} is longer than {LIMIT_CHARS:,} characters; only its beginning "
                    "is used. Shorten it."
                )
                text = text[:LIMIT_CHARS] + "\n…"
            if _has_content(text):
                yield text

    def _read(self, path: Path) -> str:
        """The file's text; a missing one is empty, and so is one that is no regular file."""
        try:
            info = path.stat()
            mark = (info.st_mtime_ns, info.st_size)
            cached = self._cache.get(path)
            if cached is None or cached[0] != mark:
                if len(self._cache) >= _MOST_FILES:
                    del self._cache[next(iter(self._cache))]
                real = self._inside(path) if S_ISREG(info.st_mode) else None
                cached = self._cache[path] = (mark, read_prompt_file(real) if real else "")
        except OSError:
            self._cache.pop(path, None)
            return ""
        return cached[1]

    def _leads_out(self, path: Path) -> bool:
        # Below the workspace a few looks tell, without one at each folder on the way to it.
        way, folder = os.fspath(path), os.fspath(self.folder)
        while ".." not in path.parts and len(way) > len(folder) and not os.path.islink(way):
            way = os.path.dirname(way)
        return way != folder and self._inside(path) is None

    def _inside(self, path: Path) -> Path | None:
        """The real path; None for a file of the workspace that is a link out of it."""
        # A command that may write here and nowhere else must not choose what Kore itself reads.
        real = Path(os.path.realpath(path))
        leads_out = not real.is_relative_to(os.path.realpath(self.folder))
        return None if leads_out and path.is_relative_to(self.folder) else real


def _has_content(text: str) -> bool:
    """Whether there is more than the starter's headings, its advice and questions left open."""
    lines = (line.strip() for line in text.splitlines())
    return any(line and not line.startswith("#") and line not in _blank_lines() for line in lines)


@cache
def _blank_lines() -> frozenset[str]:
    return frozenset(load_prompt("blank_profile").splitlines())


def volatile_facts(now: datetime, *facts: str) -> str:
    """One bracketed line: local time with its zone, then the facts (channel, sender, …)."""
    time = now.astimezone().strftime("%A %Y-%m-%d %H:%M %Z")
    return f"[{', '.join([time, *filter(None, facts)])}]"
