"""Project instructions: AGENTS.md, or CLAUDE.md as a fallback."""

import os
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from agent.prompts import load_prompt, render_prompt
from agent.records import frozen
from agent.security.files.instruction_files import PROJECT_INSTRUCTIONS, linked_instructions
from agent.security.taint.file_marks import FolderTimes, MarkLevel, mark_level
from agent.security.taint.origin import (
    TrustedOrigins,
    is_in,
    is_unconfirmed,
    unconfirmed_notice,
)
from agent.security.taint.prompt_file import MAX_CHARS, PromptFiles, PromptText
from agent.security.taint.taint import NOTHING, PRIVATE, UNTRUSTED
from agent.types import Taint

# At the beginning of a word, as in other programs: not an email address or a decorator call.
_IMPORT = re.compile(r"(?<![\w`@./])@((?:\./)?[\w.-]+(?:/[\w.-]+)*\.\w+)")
_CODE = re.compile(r"(^```.*?^```[^\n]*$|`[^`\n]*`)", re.MULTILINE | re.DOTALL)
_MAX_DEPTH = 5
_MAX_FILES = 50
# Folders in which programs store rules; other hidden names, such as .env, are not instructions.
_OPEN_FOLDERS = frozenset({".agents", ".claude", ".cursor", ".github", ".kore"})


def with_imports(text: str, folder: Path, read: Callable[[Path], str]) -> str:
    """Return the text with the content of its imports, which are relative to `folder`.

    `read` returns '' for a file that may not be read; the import then remains as written. Code is
    unchanged. A file is imported once, the limit is 50 files, and nested imports are followed five
    levels deep.
    """
    return _expand(text, folder, read, set(), _MAX_DEPTH)


def _expand(
    text: str, folder: Path, read: Callable[[Path], str], imported_paths: set[Path], depth: int
) -> str:
    def put_in(match: "re.Match[str]") -> str:
        path = Path(folder, match[1])
        if (
            depth == 0
            or len(imported_paths) >= _MAX_FILES
            or path in imported_paths
            or _is_hidden(Path(match[1]))
        ):
            return match[0]
        imported_paths.add(path)
        imported = read(path)
        if not imported:
            return match[0]
        inner = _expand(imported, path.parent, read, imported_paths, depth - 1)
        return f"[{match[1]}:]\n{inner}\n"

    parts = _CODE.split(text)
    return "".join(part if n % 2 else _IMPORT.sub(put_in, part) for n, part in enumerate(parts))


def _is_hidden(name: Path) -> bool:
    return any(part[0] == "." and part not in _OPEN_FOLDERS for part in name.parts)


_MAX_ANCESTORS = 40


@frozen
class InstructionFile:
    """Instructions for the system prompt, with their taint.

    `notices` contain a sentence for each file that was cut or left out.
    """

    text: str = ""
    taint: frozenset[Taint] = NOTHING
    notices: tuple[str, ...] = ()


class Instructions:
    """Reader for project instructions; each file is read again only if it has changed.

    Files in the `workspace` are not private. Files outside of the owner's folders are from
    untrusted sources: data that tools may read, but not instructions. A link is followed only to
    another AGENTS.md or CLAUDE.md of the same project, so that it cannot expose other files, and so
    that its text can only be changed where changes are judged as changes of instructions.
    """

    def __init__(self, workspace: Path, origin: TrustedOrigins | None = None) -> None:
        self._workspace = workspace
        self._origin = origin or TrustedOrigins((workspace.resolve(),))
        self._files = PromptFiles()

    def read(self, root: Path) -> InstructionFile:
        """Return the instructions of `root` and of the enclosing folders, nearest last.

        Their total size is limited to that of one workspace file.
        """
        texts: list[str] = []
        notices: list[str] = []
        taint = NOTHING
        room = MAX_CHARS
        times: FolderTimes = {}
        used_paths: set[Path] = set()
        folders = project_folders(root, Path(os.path.expanduser("~")))
        top = (_real_path(folders[-1]) if folders else None) or ""
        for folder in folders:
            # Resolve once: if the folder later becomes a link, reading it fails.
            real = _real_path(folder)
            if real is None or not self._origin.covers(real):
                continue
            path, text, level = self._of(folder, Path(real), Path(top), notices, times)
            if not text or path in used_paths:
                continue
            used_paths.add(path)
            if len(text) > room:
                notices.append(
                    f"{path} does not fit: project instructions may have {MAX_CHARS:,} "
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
        self, folder: Path, real: Path, top: Path, notices: list[str], times: FolderTimes
    ) -> tuple[Path, str, MarkLevel]:
        for name in PROJECT_INSTRUCTIONS:
            path, prompt_text = folder / name, self._files.read(str(real / name), times)
            if not prompt_text.text:
                path, prompt_text = self._linked(real / name, top, times)
            if not prompt_text.text:
                continue
            if not is_unconfirmed(path, self._workspace, prompt_text.level):
                return (
                    path,
                    with_imports(prompt_text.text, path.parent, self._read_import),
                    prompt_text.level,
                )
            notices.append(unconfirmed_notice(path))
        return folder, "", "none"

    def _linked(self, link: Path, top: Path, times: FolderTimes) -> tuple[Path, PromptText]:
        """Return the instruction file of the project that a link leads to, and its text."""
        target = linked_instructions(link, top)
        if target is None or not self._origin.covers(str(target.parent)):
            return link, PromptText()
        # Opened without following links, so that the file at the checked path is read.
        prompt_text = self._files.read(str(target), times)
        level = prompt_text.level if prompt_text.level != "none" else mark_level(link, times)
        return target, replace(prompt_text, level=level)

    def _read_import(self, path: Path) -> str:
        """Return the text of an imported file that is as trusted as the importing file, else ''."""
        real = _real_path(path.parent)
        if real is None or not self._origin.covers(real):
            return ""
        prompt_text = self._files.read(os.path.join(real, path.name))
        return prompt_text.text if prompt_text.level == "none" else ""

    def _brings(self, path: Path, level: MarkLevel) -> frozenset[Taint]:
        is_open = is_in(path.parent, [self._workspace.resolve()])
        is_strange = level != "none" or not self._origin.is_own(path)
        return (NOTHING if is_open else PRIVATE) | (UNTRUSTED if is_strange else NOTHING)


def _real_path(folder: Path) -> str | None:
    """Return the resolved path, or None if the folder changes in the meantime."""
    try:
        return os.path.realpath(folder)
    except OSError:
        return None


def project_folders(root: Path, home: Path) -> list[Path]:
    """Return the folder and its parents within the same repository, nearest first."""
    around = [root, *root.parents][:_MAX_ANCESTORS]
    # Strings, because this runs every turn and `Path` is several times slower.
    for n, folder in enumerate(map(os.fspath, around)):
        if folder == os.fspath(home):
            # Files in the home folder belong to the person, not to a project.
            return around[:n]
        if os.path.exists(os.path.join(folder, ".git")):
            return around[: n + 1]
    return [root]
