"""File mentions: `@path` in a line adds a file to the message."""

import re
from collections.abc import Sequence
from dataclasses import field
from pathlib import Path

from agent.records import frozen
from agent.security.files.paths import blocked_entry

# Resource of an MCP server: `@server:uri`.
_RESOURCE = re.compile(r"[A-Za-z0-9][\w-]*:")
# A mention is at the beginning of a word: me@example.com is not a mention.
_MENTION = re.compile(r'(?:(?<=[\s(\[{,;:])|^)@(?:"([^"\n]+)"|([^\s"]+))')
# Punctuation that may follow a name in a sentence.
_BEHIND = ".,;:!?)]}'\"…"
# Name with a folder or a suffix, so that it is a path and not a person's name.
_LIKE_A_PATH = re.compile(r"[^/]+/.|.*[^.]\.\w{1,8}$")


@frozen
class FileMention:
    """Mentioned files by kind.

    `files` are text files or folders, `pictures` are images. For `binary` files the model gets
    instructions for reading them; `blocked` files are not shown. `missing` are words that look like
    paths but name no existing file.
    """

    files: list[Path] = field(default_factory=list)
    pictures: list[Path] = field(default_factory=list)
    blocked: list[Path] = field(default_factory=list)
    binary: list[Path] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)


def find_mentions(
    text: str, folder: Path, blocked: Sequence[str], pasted: Sequence[tuple[int, int]] = ()
) -> FileMention:
    """Return the files that a line mentions.

    Files outside of the folder count only in typed text: the `pasted` spans may come from other
    people.
    """
    mentions = FileMention()
    root = folder.resolve()
    for match in _MENTION.finditer(text):
        path = _existing(match[1] or match[2], folder, quoted=match[1] is not None)
        is_pasted = any(begin <= match.start() < end for begin, end in pasted)
        if path is None:
            name = match[1] or match[2].rstrip(_BEHIND)
            is_resource = match[1] is None and _RESOURCE.match(name)
            if not is_pasted and not is_resource and (match[1] or _LIKE_A_PATH.match(name)):
                mentions.missing.append(name)
            continue
        real = path.resolve()
        if is_pasted and not real.is_relative_to(root):
            continue
        kind = mentions.blocked if _is_blocked(real, root, blocked) else _kind(real, mentions)
        if real not in kind:
            kind.append(real)
    return mentions


def _kind(real: Path, mentions: FileMention) -> list[Path]:
    from agent.context.project.pointed_file import kind_of

    try:
        kind = kind_of(real)
    except OSError:
        return mentions.binary
    if kind == "picture":
        return mentions.pictures
    return mentions.binary if kind == "binary" else mentions.files


def _existing(name: str, folder: Path, *, quoted: bool) -> Path | None:
    """Return the mentioned file; trailing punctuation may belong to the sentence."""
    while name:
        try:
            path = folder / Path(name).expanduser()
            if path.exists():
                return path
        except (OSError, RuntimeError, ValueError):  # too long, an unknown home, a NUL
            return None
        if quoted or name[-1] not in _BEHIND:
            return None
        name = name[:-1]
    return None


def _is_blocked(real: Path, root: Path, blocked: Sequence[str]) -> bool:
    base = root if real.is_relative_to(root) else Path(real.anchor)
    return blocked_entry(real, base, blocked) is not None
