"""Commands that people write themselves: a markdown file each, sent as a message."""

import os
import re
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

from agent.records import frozen

_MOST = 500
_DEPTH = 3
_SUMMARY_CHARS = 100
_PLACE = re.compile(r"\$ARGUMENTS\b|\{args\}|\$([1-9])(?!\d)")


@frozen
class CustomCommand:
    """`name` is without its slash; `body` may hold `$ARGUMENTS`, `{args}` and `$1` to `$9`. One
    that is not `is_trusted` came with a folder."""

    name: str
    summary: str
    body: str
    path: Path
    is_trusted: bool

    def fill(self, arguments: str) -> str:
        """What is sent. Arguments that have no place in the text stand behind it."""
        values = arguments.split()

        def value_of(match: re.Match[str]) -> str:
            number = int(match[1] or 0)
            return arguments if not number else "".join(values[number - 1 : number])

        text, places = _PLACE.subn(value_of, self.body)
        return text if places or not arguments else f"{text}\n\n{arguments}"


@frozen
class CommandFolder:
    """A folder of such files; `project`: it is in the working folder."""

    folder: Path
    project: bool
    is_trusted: bool


class CustomCommands:
    """Reads them anew each time, for they are edited while one talks. A person's own go before
    those of a project of the same name; `project:NAME` and `user:NAME` say which is meant."""

    def __init__(self, folders: Sequence[CommandFolder]) -> None:
        self._folders = sorted(folders, key=lambda source: source.project)

    def all(self) -> list[CustomCommand]:
        by_name: dict[str, CustomCommand] = {}
        for source in self._folders:
            for name, path in _files(source):
                if name not in by_name and (custom := _read(name, path, source)) is not None:
                    by_name[name] = custom
        return list(by_name.values())

    def find(self, name: str) -> CustomCommand | None:
        kind, _, rest = name.partition(":")
        command = rest if kind in ("project", "user") and rest else name
        for source in self._folders:
            if command is not name and source.project != (kind == "project"):
                continue
            for title, path in _files(source):
                if title == command and (custom := _read(title, path, source)) is not None:
                    return custom
        return None


def _files(source: CommandFolder) -> Iterator[tuple[str, Path]]:
    """Names and files: `git/commit.md` is called `git:commit`."""
    return islice(_walk(source.folder, (), source), _MOST)


def _walk(
    folder: Path, above: tuple[str, ...], source: CommandFolder
) -> Iterator[tuple[str, Path]]:
    try:
        with os.scandir(folder) as entries:
            sorted_entries = sorted(entries, key=lambda entry: entry.name)
    except OSError:
        return
    for entry in sorted_entries:
        # A link that came with a folder may lead to what no model is to see.
        if not source.is_trusted and entry.is_symlink():
            continue
        name = entry.name.removesuffix(".md").replace(" ", "-")
        if entry.is_dir():
            if len(above) < _DEPTH and not entry.is_symlink():
                yield from _walk(Path(entry.path), (*above, name), source)
        elif entry.name.endswith(".md") and entry.is_file() and name.isprintable():
            yield ":".join((*above, name)), Path(entry.path)


def _read(name: str, path: Path, source: CommandFolder) -> CustomCommand | None:
    from agent.security.taint.file_marks import is_marked, is_unseen
    from agent.text.frontmatter import SIZE_LIMIT_BYTES, decode, read

    # A command may have written it under taint, without an approval.
    if is_unseen(path):
        return None
    # The folder above may be a link, too.
    if not source.is_trusted and path.resolve() != path.absolute():
        return None
    try:
        with path.open("rb") as file:
            text, _ = decode(file.read(SIZE_LIMIT_BYTES))
    except OSError:
        return None
    document = read(text)
    description = document.fields.get("description") or next(iter(document.body.splitlines()), "")
    hint = document.fields.get("argument-hint") or ""
    summary = " ".join(
        f"{description} {hint if isinstance(hint, str) else ''}".lstrip("# ").split()
    )
    trusted = source.is_trusted and not is_marked(path)
    return CustomCommand(name, summary[:_SUMMARY_CHARS], document.body, path, trusted)
