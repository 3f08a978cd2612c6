"""Tolerant parser for SKILL.md files."""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agent.providers.effort import EFFORTS, read_effort
from agent.records import frozen
from agent.text import frontmatter
from agent.text.plugin_names import find_named, title_of
from agent.text.visible import escape_line
from agent.types import ReasoningEffort

FILE = "SKILL.md"
_MAX_FILES = 40
# https://agentskills.io/specification
NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
MAX_NAME_CHARS = 64
MAX_DESCRIPTION_CHARS = 1024
_TRUE = frozenset({"true", "yes", "on", "1"})
_FALSE = frozenset({"false", "no", "off", "0"})
# Fields with an effect, or with information for people.
_FIELDS = frozenset(
    {"name", "description", "license", "compatibility", "metadata", "allowed-tools"}
    | {"when_to_use", "argument-hint", "arguments", "disable-model-invocation", "user-invocable"}
    | {"model", "effort", "paths", "context", "agent", "version"}
)


@frozen
class Skill:
    """Skill: `body` is the text for the model, `folder` contains its files.

    `is_for_model` and `is_for_people` say who may invoke it; `runs_apart` means that the sub-agent
    `agent` runs it. `arguments` are the names of its arguments in order. `model` and `effort` are
    preferences; `paths` are the files it applies to. `remarks` describe problems, `notes` harmless
    oddities. The text of a skill that came with a `plugin` is untrusted.
    """

    name: str
    description: str
    body: str
    folder: Path
    is_for_model: bool = True
    is_for_people: bool = True
    runs_apart: bool = False
    agent: str | None = None
    model: str | None = None
    argument_hint: str = ""
    arguments: tuple[str, ...] = ()
    effort: ReasoningEffort | None = None
    paths: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    plugin: str = ""

    @property
    def is_own(self) -> bool:
        return not self.plugin

    @property
    def title(self) -> str:
        """Name that no skill of another plugin has."""
        return title_of(self)


def find_skill(skills: Mapping[str, Skill], name: str) -> Skill | None:
    """Return the skill of this name, or the plugin's skill with this title.

    Case does not matter, and `-`, `_` and blanks are the same: names of published skills contain
    all of them.
    """
    return find_named(skills, name, fold_name)


def fold_name(name: str) -> str:
    return name.casefold().replace("_", "-").replace(" ", "-")


def files_of(skill: Skill) -> list[str]:
    """Return the other files of a skill as paths relative to its folder."""
    names: list[str] = []
    for folder, folders, files in os.walk(skill.folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(files):
            path = Path(folder, name)
            if name != FILE and not name.startswith(".") and not path.is_symlink():
                names.append(str(path.relative_to(skill.folder)))
            if len(names) >= _MAX_FILES:
                return names
    return names


def read_skill(raw: bytes, folder: Path) -> Skill | None:
    """Return the skill in a SKILL.md, or None if it has no description."""
    text, remarks = frontmatter.decode(raw)
    document = frontmatter.read(text)
    fields = {_fold(name): value for name, value in reversed(list(document.fields.items()))}
    problems, notes = [*remarks, *document.remarks], list[str]()
    description = _line(fields.get("description"))
    if when := _line(fields.get(_fold("when_to_use"))):
        description = f"{description} {when}".strip()
    if not description:
        return None
    if len(description) > MAX_DESCRIPTION_CHARS:
        description = description[: MAX_DESCRIPTION_CHARS - 1] + "…"
        problems.append(f"the description is longer than {MAX_DESCRIPTION_CHARS:,} characters")
    name = _line(fields.get("name"))[:MAX_NAME_CHARS] or folder.name
    if not NAME.fullmatch(name):
        problems.append(f'the name "{name}" is not lowercase letters, digits and single hyphens')
    elif name != folder.name:
        notes.append(f'the name "{name}" is not that of its folder')
    unknown = [field for field in document.fields if _fold(field) not in map(_fold, _FIELDS)]
    notes += [f'the field "{field[:40]}" has no effect' for field in unknown]
    level = _line(fields.get("effort")).casefold()
    effort = read_effort(level)
    if level and effort is None:
        problems.append(f'the effort "{level[:40]}" is not one of {", ".join(EFFORTS)}')
    if _fold("allowed-tools") in fields:
        notes.append("allowed-tools has no effect: a skill never grants permissions")
    return Skill(
        name=name,
        description=description,
        body=document.body.strip(),
        folder=folder,
        is_for_model=not _flag(fields, "disable-model-invocation", default=False),
        is_for_people=_flag(fields, "user-invocable", default=True),
        runs_apart=_line(fields.get("context")).casefold() == "fork",
        agent=_line(fields.get("agent")) or None,
        model=_line(fields.get("model")) or None,
        effort=effort,
        paths=_words(fields.get("paths")),
        argument_hint=_line(fields.get(_fold("argument-hint"))),
        arguments=_words(fields.get("arguments")),
        remarks=tuple(problems),
        notes=tuple(notes),
    )


def _flag(fields: Mapping[str, Any], name: str, *, default: bool) -> bool:
    value = fields.get(_fold(name))
    if isinstance(value, bool):
        return value
    word = _line(value).casefold()
    return True if word in _TRUE else False if word in _FALSE else default


def _words(value: Any) -> tuple[str, ...]:
    words = value if isinstance(value, list) else re.split(r"[\s,]+", _line(value))
    return tuple(name for word in words if (name := str(word).strip()))


def _line(value: Any) -> str:
    if value is None or isinstance(value, dict):
        return ""
    text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
    return escape_line(" ".join(text.split()))


def _fold(name: str) -> str:
    return name.casefold().replace("_", "").replace("-", "")
