"""Commands that are prompts: `/NAME` with a built-in text, a markdown file or a skill."""

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path

from agent.i18n import mark_for_translation
from agent.prompts import load_prompt, render_prompt
from agent.records import frozen
from agent.security.files.safe_open import open_regular
from agent.security.taint.file_marks import OpenFileMark, mark_level
from agent.skills.definition import Skill, find_skill, fold_name
from agent.skills.substitution import fill_in, mark_commands, skill_text
from agent.text.frontmatter import SIZE_LIMIT_BYTES, decode, read

_MOST = 500
_DEPTH = 3
_MAX_SUMMARY_CHARS = 100
# Chats append the name of a bot.
_CALL = re.compile(r"/([^\s/@]+)(?:@\w+)?(?:\s+(.*))?", re.DOTALL)


@frozen
class BuiltInCommand:
    """Command whose text is the prompt of this name, unless a trusted command has its name."""

    name: str
    summary: str
    prompt: str

    def fill(self, arguments: str) -> str:
        what, rules = f": {arguments}" if arguments else "", load_prompt("review_rules")
        return render_prompt(self.prompt, what=what, rules=rules)


BUILT_IN = {
    command.name: command
    for command in (
        BuiltInCommand(
            "review",
            mark_for_translation("review uncommitted changes: /review, or /review WHAT"),
            "review",
        ),
        BuiltInCommand(
            "init",
            mark_for_translation("write AGENTS.md for this folder; you see it first"),
            "init_project",
        ),
    )
}


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
        """Return the text for the model; arguments without a placeholder are appended."""
        if self.skill is not None:
            text = skill_text(self.skill, arguments)
            if not self.skill.runs_apart:
                return text
            return render_prompt("skill_apart", agent=self.skill.agent or "general", text=text)
        body = mark_commands(self.body.replace("{args}", "$ARGUMENTS"))
        return fill_in(body, arguments, self.arguments)


@frozen
class CommandFolder:
    """Folder of custom commands, or one file.

    `project` marks a folder inside the working folder. The names of a `plugin`'s commands start
    with the name of the plugin.
    """

    folder: Path
    project: bool
    is_trusted: bool
    plugin: str = ""


@frozen
class Invocation:
    """Command in a message, with the text after its name."""

    command: BuiltInCommand | CustomCommand
    arguments: str = ""

    @property
    def is_trusted(self) -> bool:
        return isinstance(self.command, BuiltInCommand) or self.command.is_trusted

    @property
    def skill(self) -> Skill | None:
        return None if isinstance(self.command, BuiltInCommand) else self.command.skill

    def prompt(self) -> str:
        """Return the text of the command with its arguments."""
        return self.command.fill(self.arguments)

    def text(self) -> str:
        """Return the text for the model, with its origin."""
        command, text = self.command, self.prompt()
        if isinstance(command, BuiltInCommand):
            return render_prompt("command_built_in", command=command.name, text=text)
        if command.skill is not None:
            return text
        note = ""
        if not command.is_trusted:
            note = render_prompt("folder_command", command=f"/{command.name}", path=command.path)
        return render_prompt(
            "command_text", command=command.name, path=command.path, text=text, note=note
        ).strip()


class CustomCommands:
    """Collection of all custom commands, read again for each call because files may be edited.

    A person's own commands take precedence over project commands of the same name; `project:NAME`
    and `user:NAME` select one explicitly. Skills that people may invoke come last, but before
    commands that are not trusted. Trusted ones take precedence over built-in commands.
    """

    def __init__(
        self, folders: Sequence[CommandFolder], skills: Callable[[], Mapping[str, Skill]] = dict
    ) -> None:
        self._folders = sorted(folders, key=lambda source: source.project)
        self._skills = skills

    def all(self) -> list[CustomCommand]:
        """Return the commands that their names invoke."""
        by_name: dict[str, CustomCommand] = {}
        for source in self._folders:
            earlier = set(map(fold_name, by_name))
            for name, path in _files(source):
                if name in by_name or fold_name(name) in earlier:
                    continue
                if (custom := _read(name, path, source)) is not None:
                    by_name[name] = custom
        names = {fold_name(name): name for name in by_name}
        for skill_name, skill in self._skills().items():
            if skill.is_for_people:
                name = names.get(fold_name(skill_name), skill_name)
                command = _of_skill(skill_name.replace(" ", "-"), skill)
                by_name[name] = _preferred(by_name.get(name), command)
        return [
            command
            for command in by_name.values()
            if command.is_trusted or fold_name(command.name) not in BUILT_IN
        ]

    def menu(self) -> list[BuiltInCommand | CustomCommand]:
        """Return all commands, first the built-in ones that no other replaces."""
        custom = self.all()
        names = {fold_name(command.name) for command in custom}
        return [*(each for name, each in BUILT_IN.items() if name not in names), *custom]

    def find(self, name: str) -> CustomCommand | None:
        """Return the command or skill of this name, which is compared as for `find_skill`."""
        command = self._find_file(name)
        if command is not None and command.is_trusted:
            return command
        skills = self._skills()
        skill = find_skill(skills, name)
        if skill is None or not skill.is_for_people:
            return command
        # Hooks match the skill's own name, however the person spelled it.
        own_name = next(key for key, other in skills.items() if other is skill)
        return _preferred(command, _of_skill(own_name, skill))

    def invocation_in(self, text: str) -> Invocation | None:
        """Return the invocation in a message, or None if it invokes no command of people."""
        match = _CALL.fullmatch(text.strip())
        if match is None:
            return None
        name, arguments = match[1], (match[2] or "").strip()
        command = self.find(name)
        built_in = BUILT_IN.get(fold_name(name))
        if built_in is not None and (command is None or not command.is_trusted):
            return Invocation(built_in, arguments)
        return None if command is None else Invocation(command, arguments)

    def equal_names(self, text: str) -> Sequence[str]:
        """Return the names of several plugins' skills that a message may mean."""
        match = _CALL.fullmatch(text.strip())
        if match is None:
            return ()
        skills = self._skills().items()
        return [
            name
            for name, skill in skills
            if skill.is_for_people and skill.plugin and skill.name != name
            if fold_name(skill.name) == fold_name(match[1])
        ]

    def _find_file(self, name: str) -> CustomCommand | None:
        kind, _, rest = name.partition(":")
        kind = kind.casefold()
        command = rest if kind in ("project", "user") and rest else name
        folded = fold_name(command)
        for source in self._folders:
            if command is not name and source.project != (kind == "project"):
                continue
            files = (file for file in _files(source) if fold_name(file[0]) == folded)
            for title, path in sorted(files, key=lambda file: file[0] != command):
                if (custom := _read(title, path, source)) is not None:
                    return custom
        return None


def _preferred(file: CustomCommand | None, skill: CustomCommand) -> CustomCommand:
    """Return the command of a file rather than a skill, unless only the skill is trusted."""
    return skill if file is None or (skill.is_trusted and not file.is_trusted) else file


def _of_skill(name: str, skill: Skill) -> CustomCommand:
    """Return a command that sends the whole skill with the names of its files."""
    summary = _summary(skill.description, skill.argument_hint)[:_MAX_SUMMARY_CHARS]
    return CustomCommand(
        name, summary, skill.body, skill.folder, skill.is_own, skill.arguments, skill
    )


def _summary(description: str, hint: str) -> str:
    """Return the description of a command, followed by its argument hint."""
    line = " ".join(description.lstrip("# ").split())
    parts = (line.rstrip(".:") if hint.strip() else line, " ".join(hint.split()))
    return ": ".join(filter(None, parts))


def _files(source: CommandFolder) -> Iterator[tuple[str, Path]]:
    """Yield command names and files: `git/commit.md` is `git:commit`."""
    above = (source.plugin,) if source.plugin else ()
    if source.folder.is_file():
        name = source.folder.name.removesuffix(".md").replace(" ", "-")
        return iter([(":".join((*above, name)), source.folder)])
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
