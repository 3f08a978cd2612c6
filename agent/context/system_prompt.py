"""System prompt, composed of the workspace's files.

It is byte-identical from turn to turn while the files are unchanged, so variable facts do not
belong here.
"""

import os
from collections.abc import Iterator, Sequence
from datetime import datetime
from functools import cache, lru_cache
from pathlib import Path

from agent.context.project.instructions import Instructions
from agent.prompts import load_prompt, render_prompt
from agent.records import frozen
from agent.security.taint.file_marks import FolderTimes
from agent.security.taint.origin import TrustedOrigins, is_unconfirmed, unconfirmed_notice
from agent.security.taint.prompt_file import MAX_CHARS, PromptFiles, PromptText
from agent.security.taint.taint import NOTHING, PRIVATE, UNTRUSTED
from agent.security.taint.worktree_record import WorktreeRecord
from agent.types import Taint

_SHARED = ("IDENTITY.md", "AGENT.md", "SOUL.md")

_FILES = (*_SHARED, "USER.md")
# Replaces the older lines of a long memory file.
_OMITTED = "…\n"


@frozen
class SystemPrompt:
    """Text of the system prompt, with a notice for each file that was cut or left out.

    `instructions` is the part of the text that the project contributed, `place` the sentence about
    relative paths.
    """

    text: str
    notices: tuple[str, ...] = ()
    instructions: str = ""
    place: str = ""


class Workspace:
    """Reader for the files of the system prompt; each is read again only if it has changed.

    USER.md and memory/MEMORY.md belong to the owner: a prompt for another person contains that
    person's memory file instead. Files in the `trusted` folders count as the owner's, too.
    """

    def __init__(
        self,
        folder: Path,
        trusted: Sequence[Path] = (),
        *,
        is_all_project: bool = False,
        worktrees: WorktreeRecord | None = None,
    ) -> None:
        self.folder = folder
        self._is_all_project = is_all_project
        self.origin = TrustedOrigins((folder.resolve(), *trusted), worktrees)
        self._instructions = Instructions(folder, self.origin)
        self._files = PromptFiles()
        # Strings, because this runs every turn and `Path` is several times slower.
        self._prefix = os.path.join(folder, "")
        self._real_prefix = os.path.join(self.origin.own[0], "")

    @property
    def owner_memory(self) -> Path:
        return self.folder / "memory" / "MEMORY.md"

    @property
    def _profile(self) -> Path:
        return self.folder / "USER.md"

    def system_prompt(  # noqa: PLR0913 - the facts of one prompt
        self,
        memory: Path,
        root: Path,
        *,
        owner: bool,
        start_folder: Path | None = None,
        persona: str | None = None,
        memory_text: str | None = None,
        environment: str = "",
    ) -> SystemPrompt:
        """Return the system prompt.

        `memory` is the memory file of the speaker and `root` the folder of the work; relative paths
        start in `start_folder`, by default `root`. `owner` is True for the owner in a private chat.
        `memory_text` is the result of `memory_snapshot` at the start of the session; without it,
        the file is read. `persona` is the style in this chat: a text, or a file of the workspace if
        it ends in `.md`. `environment` is the result of `describe_environment`. In a project, the
        prompt includes a section on coding. Files that are not filled in are omitted.
        """
        names = _FILES if owner else _SHARED
        notices: list[str] = []
        paths = [self.folder / name for name in names]
        if memory_text is None:
            paths.append(memory)
        texts = [*self._texts(paths, notices, memory), *filter(None, [memory_text])]
        if memory_text is not None and memory_text.startswith(_OMITTED):
            notices.append(_memory_notice(memory))
        if persona is not None:
            is_file = persona.endswith(".md")
            persona_texts = self._texts([self.folder / persona], notices) if is_file else [persona]
            texts += [render_prompt("persona", persona=text) for text in persona_texts]
        if self.is_project(root):
            texts.append(load_prompt("code"))
        instructions = self._instructions.read(start_folder or root)
        if instructions.text:
            texts.append(instructions.text)
            notices += instructions.notices
        place = _describe_place(root, start_folder)
        text = render_prompt("system", files="\n\n".join(texts), place=place).strip()
        prompt = f"{text}\n\n{environment}".strip()
        return SystemPrompt(prompt, tuple(notices), instructions.text, place)

    def is_project(self, root: Path) -> bool:
        """Return whether `root` is in a project folder, or the workspace itself is a project."""
        if self._is_all_project:
            return True
        # Strings, because this runs every turn and `Path` is several times slower.
        return not f"{root}/".startswith(f"{self.folder}/".replace("//", "/"))

    def memory_snapshot(self, memory: Path) -> str | None:
        """Return the memory as the prompt contains it, or None if the file is left out for now."""
        level = self._read(memory).level
        is_left_out = self._is_linked(memory) or is_unconfirmed(memory, self.folder, level)
        return None if is_left_out else "".join(self._texts([memory], [], memory))

    def text_of(self, memory: Path) -> str:
        """Return the part of a memory file that the prompt contains."""
        read = self._read(memory)
        return read.newest or read.text

    def taint(
        self,
        memory: Path,
        root: Path,
        persona: str | None = None,
        start_folder: Path | None = None,
    ) -> frozenset[Taint]:
        """Return the taint that the prompt adds to a conversation; omitted files add none."""
        taint = PRIVATE if self.is_personal(memory) else NOTHING
        strange = False
        if persona is not None and persona.endswith(".md"):
            path = self.folder / persona
            level = self._read(path).level
            strange = level != "none" and not is_unconfirmed(path, self.folder, level)
        # All content of other folders is untrusted, including file names.
        strange |= not self.origin.is_own(root)
        taint |= UNTRUSTED if strange else NOTHING
        return taint | self._instructions.read(start_folder or root).taint

    def is_personal(self, memory: Path) -> bool:
        """Return whether the prompt contains facts about a person.

        An unfilled profile and an empty memory do not count.
        """
        profiles = [self._profile] if memory == self.owner_memory else []
        return any(_has_content(self._read_text(path)) for path in (*profiles, memory))

    def _texts(
        self, paths: list[Path], notices: list[str], memory: Path | None = None
    ) -> Iterator[str]:
        times: FolderTimes = {}
        for path in paths:
            prompt_text = self._read(path, times)
            if is_unconfirmed(path, self.folder, prompt_text.level):
                notices.append(unconfirmed_notice(path))
                continue
            text = prompt_text.text
            if not text and self._is_linked(path):
                notices.append(
                    f"{path.name} is a link, or lies in a folder that is one, so it is not used; "
                    "put a file in its place."
                )
            if prompt_text.newest and path == memory:
                # `remember` adds lines at the end.
                notices.append(_memory_notice(path))
                text = _OMITTED + prompt_text.newest
            elif len(text) > MAX_CHARS:
                notices.append(
                    f"{path.name} is longer than {MAX_CHARS:,} characters; only its beginning "
                    "is used. Shorten it."
                )
                text = text[:MAX_CHARS] + "\n…"
            if _has_content(text):
                yield text

    def _read(self, path: Path, times: FolderTimes | None = None) -> PromptText:
        """Return a file's text and mark level, empty for a workspace file that is a link."""
        place = self._place(path)
        return PromptText() if place is None else self._files.read(place, times)

    def _read_text(self, path: Path) -> str:
        place = self._place(path)
        return "" if place is None else self._files.read_text(place)

    def _place(self, path: Path) -> str | None:
        """Return the real path, or None for a workspace file that is a link."""
        # A command that may write only here must not choose the files that Kore reads.
        if self._is_linked(path):
            return None
        way = os.fspath(path)
        if way.startswith(self._prefix):
            return self._real_prefix + way[len(self._prefix) :]
        return os.path.realpath(way)

    def _is_linked(self, path: Path) -> bool:
        """Return whether a path below the workspace contains a link or leads out of it."""
        way = os.fspath(path)
        if not way.startswith(self._prefix):
            return False
        place = self._prefix
        for name in way[len(self._prefix) :].split("/"):
            if name == ".." or os.path.islink(place + name):
                return True
            place += f"{name}/"
        return False


def _describe_place(root: Path, start_folder: Path | None) -> str:
    if start_folder is None or start_folder == root:
        return render_prompt("place", root=root)
    return render_prompt("place_in_project", root=root, folder=start_folder)


def _memory_notice(memory: Path) -> str:
    return (
        f"{memory.name} is longer than {MAX_CHARS:,} characters; only its newest lines are "
        "used. Shorten it."
    )


@lru_cache(maxsize=32)
def _has_content(text: str) -> bool:
    """Return whether the text has content besides the headings and questions of the template."""
    lines = (line.strip() for line in text.splitlines())
    return any(line and not line.startswith("#") and line not in _blank_lines() for line in lines)


@cache
def _blank_lines() -> frozenset[str]:
    return frozenset(load_prompt("blank_profile").splitlines())


def volatile_facts(now: datetime, *facts: str) -> str:
    """Return one bracketed line: local time with its zone, then the facts (channel, sender, …)."""
    time = now.astimezone().strftime("%A %Y-%m-%d %H:%M %Z")
    return f"[{', '.join([time, *filter(None, facts)])}]"
