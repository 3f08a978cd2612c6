"""Paths in the arguments and variables of an MCP server, and the folders that it needs for them."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

from agent.mcp.settings import McpServerSettings
from agent.mcp.stdio import program_folders
from agent.records import frozen
from agent.security.sandbox import environment

_HERE = ("./", "../")


@frozen
class NeededFolder:
    """Folder of a path that the server names and cannot open, or only read.

    `folder` is None for a path whose folder cannot be opened as a whole.
    """

    path: Path
    folder: Path | None
    access: Literal["none", "read"]


def absolute(word: str, here: Path, folder: Path | None) -> str:
    """Return a word of a command with its relative path made absolute, also after `--option=`.

    A path begins with `./` or `../`, ends with `/`, or names a file in `here` and is not a plain
    word: it contains a slash or a dot. A path that exists only in the server's `folder` is
    unchanged. Touches the disk.
    """
    option, mark, value = word.partition("=") if word.startswith("-") else ("", "", word)
    if (word.startswith("-") and not mark) or not value or value.startswith(("/", "~")):
        return word
    path = here / value
    is_spelled = value in (".", "..") or value.startswith(_HERE)
    # A subcommand such as `run` may be the name of a file, too.
    is_file = ("/" in value or "." in value) and path.is_file()
    if not (is_spelled or is_file or (value.endswith("/") and path.is_dir())):
        return word
    if folder is not None and not path.exists() and (folder / value).exists():
        return word
    return f"{option}{mark}{os.path.abspath(path)}"


def needed_folders(
    server: McpServerSettings, home: Path, closed: Sequence[Path], readable: Sequence[Path]
) -> Iterator[NeededFolder]:
    """Yield the folders that a server needs for the paths in its arguments and variables.

    `closed` are files and folders that no server may open, `readable` those that every command may
    read. A file that is named after an option or in a variable is data, which the server may want
    to change; any other file is a part of its program. Touches the disk.
    """
    work_folder = server.work_folder
    opened = [] if work_folder is None else [work_folder.resolve()]
    opened += [access.path for access in server.open_folders]
    program_paths = [folder.resolve() for folder in program_folders(server, home, closed)]
    yielded: set[Path] = set()
    for word, is_data in _words(server):
        path = Path(os.path.realpath(Path(word).expanduser()))
        if any(map(path.is_relative_to, (*opened, *readable))) or path in yielded:
            continue
        is_readable = any(map(path.is_relative_to, program_paths))
        if is_readable and not is_data:
            continue
        folder = path if path.is_dir() else path.parent
        if not folder.is_dir() or folder == Path("/"):
            continue
        yielded.add(path)
        is_whole = any(
            place.is_relative_to(folder) for place in (home, Path(environment.TEMPORARY), *closed)
        )
        yield NeededFolder(path, None if is_whole else folder, "read" if is_readable else "none")


def _words(server: McpServerSettings) -> Iterator[tuple[str, bool]]:
    """Yield the words that may be full paths, and whether they are data."""
    before = ""
    for word in server.args:
        value = word.partition("=")[2] if word.startswith("-") else word
        if value.startswith(("/", "~/")):
            yield value, word.startswith("-") or before.startswith("-")
        before = word
    for value in server.env.values():
        if value.startswith(("/", "~/")):
            yield value, True
