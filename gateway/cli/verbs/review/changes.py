"""Changes to review: a diff by file, with the lines that a comment can refer to."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import field

from agent.records import frozen
from gateway.cli.verbs.review.repository import GitReader

# Longer diffs are omitted file by file, because the model also needs room to read related code.
MAX_DIFF_CHARS = 200_000
_FILE = b"diff --git "
_HUNK = re.compile(rb"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")


@frozen
class ChangedFile:
    """File of a diff. `lines` maps each line of the new file in the diff to its number in the old
    file, or None for an added line."""

    path: str
    old_path: str
    text: str
    lines: Mapping[int, int | None] = field(default_factory=dict)


@frozen
class Changes:
    """Changes from the commit `base` to the commit `head`, or to the folder if it is None.

    `left_out` are the names of changed files that are not in `files`.
    """

    base: str
    head: str | None
    files: tuple[ChangedFile, ...]
    left_out: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        return "".join(file.text for file in self.files)

    def find(self, path: str, line: int | None) -> ChangedFile | None:
        """Return the file whose part of the diff contains a line, or None."""
        return next((file for file in self.files if file.path == path and line in file.lines), None)


def read_changes(
    git: GitReader, base: str, head: str | None, limit_chars: int = MAX_DIFF_CHARS
) -> Changes:
    """Return the changes. Raises `KoreError`."""
    files: list[ChangedFile] = []
    for file in parse_diff(git.diff(base, head)):
        if len(file.text) <= limit_chars:
            limit_chars -= len(file.text)
            files.append(file)
    paths = {file.path for file in files} | {file.old_path for file in files}
    left_out = [path for path in git.changed_paths(base, head) if path not in paths]
    return Changes(base, head, tuple(files), tuple(left_out))


def parse_diff(diff: bytes) -> Iterator[ChangedFile]:
    """Yield the files of a diff by git."""
    section: list[bytes] = []
    old_left = new_left = 0
    for line in diff.split(b"\n")[:-1]:
        if old_left > 0 or new_left > 0:
            old_left -= line[:1] in (b" ", b"-")
            new_left -= line[:1] in (b" ", b"+")
        elif match := _HUNK.match(line):
            old_left, new_left = (int(match[group] or 1) for group in (2, 4))
        elif line.startswith(_FILE) and section:
            yield _file(section)
            section = []
        section.append(line)
    if section:
        yield _file(section)


def _file(section: list[bytes]) -> ChangedFile:
    """Return the file of a section, which begins with its header."""
    # A header without changed lines has the same name twice: `a/NAME b/NAME`.
    names = section[0].removeprefix(_FILE)
    old_path = path = _text(names[2 : len(names) // 2])
    lines: dict[int, int | None] = {}
    old = new = old_left = new_left = 0
    for line in section[1:]:
        if old_left > 0 or new_left > 0:
            sign = line[:1]
            if sign in (b" ", b"+"):
                lines[new] = old if sign == b" " else None
            is_old, is_new = sign in (b" ", b"-"), sign in (b" ", b"+")
            old, new, old_left, new_left = (
                old + is_old,
                new + is_new,
                old_left - is_old,
                new_left - is_new,
            )
        elif match := _HUNK.match(line):
            old, old_left, new, new_left = (int(match[group] or 1) for group in (1, 2, 3, 4))
        elif line.startswith((b"--- a/", b"rename from ")):
            old_path = _text(line.removeprefix(b"--- a/").removeprefix(b"rename from "))
        elif line.startswith((b"+++ b/", b"rename to ")):
            path = _text(line.removeprefix(b"+++ b/").removeprefix(b"rename to "))
    text = "".join(f"{line.decode('utf-8', 'replace')}\n" for line in section)
    return ChangedFile(path, old_path, text, lines)


def _text(name: bytes) -> str:
    # Git marks the end of a name that contains spaces with a tab. It quotes names with control
    # characters; findings cannot refer to such files.
    return name.removesuffix(b"\t").decode("utf-8", "surrogateescape")
