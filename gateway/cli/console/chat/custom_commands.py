"""Custom commands: one markdown file each, sent as a message."""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path

from agent.records import frozen
from agent.security.files.safe_open import open_regular
from agent.skills.definition import Skill
from agent.skills.substitution import fill_in, mark_commands

_MOST = 500
_DEPTH = 3
_MAX_SUMMARY_CHARS = 100


@frozen
class CustomCommand:
    """Custom command from a markdown file or a skill.

    `name` has no slash. `body` may contain the placeholders of `fill_in` and `{args}`; `arguments`
    are the names of its arguments. A command that is not `is_trusted` came with a folder. With a
    `skill`, the skill is sent.
    """

    name: str
    summary: str
    body: str
    path: Path
    is_trusted: bool
    arguments: tuple[str, ...] = ()
    skill: Skill | None = None

    def fill(self, arguments: str) -> str:
        """Return the message text; arguments without a placeholder are appended."""
        if self.skill is not None:
            from agent.skills.invocation import SkillInvocation

            return SkillInvocation(self.skill, arguments).text()
        body = mark_commands(self.body.replace("{args}", "$ARGUMENTS"))
        return fill_in(body, arguments, self.arguments)


@frozen
class CommandFolder:
    """Folder of custom commands.

    `project` marks a folder inside the working folder. The names of a `plugin`'s commands start
    with the name of the plugin.
    """

    folder: Path
    project: bool
    is_trusted: bool
    plugin: str = ""


class CustomCommands:
    """Collection of all custom commands, read again for each call because files may be edited.

    A person's own commands take precedence over project commands of the same name; `project:NAME`
    and `user:NAME` select one explicitly. Skills that people may invoke come last.
    """

    def __init__(
        self, folders: Sequence[CommandFolder], skills: Callable[[], Iterable[Skill]] = tuple
    ) -> None:
        self._folders = sorted(folders, key=lambda source: source.project)
        self._skills = skills

    def all(self) -> list[CustomCommand]:
        by_name: dict[str, CustomCommand] = {}
        for source in self._folders:
            for name, path in _files(source):
                if name not in by_name and (custom := _read(name, path, source)) is not None:
                    by_name[name] = custom
        for skill in self._skills():
            if skill.is_for_people:
                by_name.setdefault(skill.name, _of_skill(skill))
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
        skills = (item for item in self._skills() if item.is_for_people)
        return next((_of_skill(skill) for skill in skills if skill.name == name), None)


def _of_skill(skill: Skill) -> CustomCommand:
    """Return a command that sends the whole skill with the names of its files."""
    summary = _summary(skill.description, skill.argument_hint)[:_MAX_SUMMARY_CHARS]
    return CustomCommand(
        skill.name, summary, skill.body, skill.folder, skill.is_own, skill.arguments, skill
    )


def _summary(description: str, hint: str) -> str:
    """Return the description of a command, followed by its argument hint."""
    line = " ".join(description.lstrip("# ").split())
    parts = (line.rstrip(".:") if hint.strip() else line, " ".join(hint.split()))
    return ": ".join(filter(None, parts))


def _files(source: CommandFolder) -> Iterator[tuple[str, Path]]:
    """Yield command names and files: `git/commit.md` is `git:commit`."""
    above = (source.plugin,) if source.plugin else ()
    return islice(_walk(source.folder, above, source), _MOST)


def _walk(
    folder: Path, above: tuple[str, ...], source: CommandFolder
) -> Iterator[tuple[str, Path]]:
    try:
        with os.scandir(folder) as entries:
            sorted_entries = sorted(entries, key=lambda entry: entry.name)
    except OSError:
        return
    for entry in sorted_entries:
        # A link in an untrusted folder may point to a file that the model must not see.
        if not source.is_trusted and entry.is_symlink():
            continue
        name = entry.name.removesuffix(".md").replace(" ", "-")
        if entry.is_dir():
            if len(above) < _DEPTH and not entry.is_symlink():
                yield from _walk(Path(entry.path), (*above, name), source)
        elif entry.name.endswith(".md") and entry.is_file() and name.isprintable():
            yield ":".join((*above, name)), Path(entry.path)


def _read(name: str, path: Path, source: CommandFolder) -> CustomCommand | None:
    from agent.security.taint.file_marks import OpenFileMark, mark_level
    from agent.text.frontmatter import SIZE_LIMIT_BYTES, decode, read

    # A parent folder may be a link as well.
    if not source.is_trusted and path.resolve() != path.absolute():
        return None
    try:
        with open_regular(path) as file:
            mark = OpenFileMark.of(file.fileno())
            text, _ = decode(file.read(SIZE_LIMIT_BYTES))
    except OSError:
        return None
    # A tainted command may have written the file without approval.
    if (level := mark_level(path, opened=mark)) == "unseen":
        return None
    document = read(text)
    description = document.fields.get("description") or next(iter(document.body.splitlines()), "")
    hint = document.fields.get("argument-hint") or ""
    summary = _summary(str(description), hint if isinstance(hint, str) else "")
    trusted = source.is_trusted and level == "none"
    names = document.fields.get("arguments") or ""
    words = names if isinstance(names, list) else str(names).replace(",", " ").split()
    return CustomCommand(
        name, summary[:_MAX_SUMMARY_CHARS], document.body, path, trusted, tuple(map(str, words))
    )
