"""The instructions that a project brings along: AGENTS.md, or CLAUDE.md where there is none."""

import os
from pathlib import Path

from agent.context.project.instruction_imports import with_imports
from agent.prompts import load_prompt, render_prompt
from agent.records import frozen
from agent.security.taint.file_marks import FolderTimes, MarkLevel
from agent.security.taint.origin import (
    TrustedOrigins,
    is_in,
    is_unconfirmed,
    lies_in,
    unconfirmed_notice,
)
from agent.security.taint.prompt_file import LIMIT_CHARS, PromptFiles
from agent.security.taint.taint import NOTHING, PRIVATE, UNTRUSTED
from agent.types import Taint

NAMES = ("AGENTS.md", "CLAUDE.md")
_ANCESTORS_MOST = 40


@frozen
class InstructionFile:
    """The text for the system prompt, what it brings along, and a sentence for each file that was
    cut or left out."""

    text: str = ""
    taint: frozenset[Taint] = NOTHING
    notices: tuple[str, ...] = ()


class Instructions:
    """Reads them, each file only when it has changed.

    What lies in the `workspace` is not private. What lies outside of the owner's folders was
    written by strangers: it is data, which tools may read, and no instruction. Links are not
    followed: none shows what lies elsewhere.
    """

    def __init__(self, workspace: Path, origin: TrustedOrigins | None = None) -> None:
        self._workspace = workspace
        self._origin = origin or TrustedOrigins((workspace.resolve(),))
        self._files = PromptFiles()

    def read(self, root: Path) -> InstructionFile:
        """Those of `root` and of the folders around it, the nearest last; all together hold as
        much as one file of the workspace may."""
        texts: list[str] = []
        notices: list[str] = []
        taint = NOTHING
        room = LIMIT_CHARS
        times: FolderTimes = {}
        for folder in project_folders(root, Path(os.path.expanduser("~"))):
            # Looked at once: from here on a folder that becomes a link is an error.
            real = _real_path(folder)
            if real is None or not lies_in(real, self._origin.own):
                continue
            path, text, level = self._of(folder, real, notices, times)
            if not text:
                continue
            if len(text) > room:
                notices.append(
                    f"{path} does not fit: project instructions may have {LIMIT_CHARS:,} "
                    "characters in all. Shorten it."
                )
                text = f"{text[:room]}\n…" if room else ""
            room = max(room - len(text), 0)
            if text:
                file_taint = self._brings(path, level)
                taint |= file_taint
                whose = load_prompt("project_stranger") + "\n\n" if file_taint >= UNTRUSTED else ""
                texts.append(
                    render_prompt("project_instructions", path=path, whose=whose, text=text)
                )
        return InstructionFile("\n\n".join(reversed(texts)), taint, tuple(notices))

    def _of(
        self, folder: Path, real: str, notices: list[str], times: FolderTimes
    ) -> tuple[Path, str, MarkLevel]:
        for name in NAMES:
            prompt_text = self._files.read(os.path.join(real, name), times)
            if not prompt_text.text:
                continue
            path = folder / name
            if not is_unconfirmed(path, self._workspace, prompt_text.level):
                return (
                    path,
                    with_imports(prompt_text.text, folder, self._read_import),
                    prompt_text.level,
                )
            notices.append(unconfirmed_notice(path))
        return folder, "", "none"

    def _read_import(self, path: Path) -> str:
        """The file's text where it is as trusted as the file that names it."""
        real = _real_path(path.parent)
        if real is None or not lies_in(real, self._origin.own):
            return ""
        prompt_text = self._files.read(os.path.join(real, path.name))
        return prompt_text.text if prompt_text.level == "none" else ""

    def _brings(self, path: Path, level: MarkLevel) -> frozenset[Taint]:
        is_open = is_in(path.parent, [self._workspace.resolve()])
        is_strange = level != "none" or not self._origin.is_own(path)
        return (NOTHING if is_open else PRIVATE) | (UNTRUSTED if is_strange else NOTHING)


def _real_path(folder: Path) -> str | None:
    """None for one that changes while it is looked at."""
    try:
        return os.path.realpath(folder)
    except OSError:
        return None


def project_folders(root: Path, home: Path) -> list[Path]:
    """The folder and those around it that belong to the same repository, the nearest first."""
    around = [root, *root.parents][:_ANCESTORS_MOST]
    # As strings: every turn asks, and `Path` takes several times as long.
    for n, folder in enumerate(map(os.fspath, around)):
        if folder == os.fspath(home):
            # What lies there is the person's own.
            return around[:n]
        if os.path.exists(os.path.join(folder, ".git")):
            return around[: n + 1]
    return [root]
