"""Tolerant parser for SKILL.md files."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agent.providers.effort import EFFORTS, read_effort
from agent.records import frozen
from agent.text import frontmatter
from agent.text.visible import escape_line
from agent.types import ReasoningEffort

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
    preferences; `paths` are the files it applies to. `remarks` describe problems. If `is_own` is
    false, the skill came with a plugin, so its text is untrusted.
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
    is_own: bool = True


def read_skill(raw: bytes, folder: Path) -> Skill | None:
    """Return the skill in a SKILL.md, or None if it has no description."""
    text, remarks = frontmatter.decode(raw)
    document = frontmatter.read(text)
    fields = {_fold(name): value for name, value in reversed(list(document.fields.items()))}
    notes = [*remarks, *document.remarks]
    description = _line(fields.get("description"))
    if when := _line(fields.get(_fold("when_to_use"))):
        description = f"{description} {when}".strip()
    if not description:
        return None
    if len(description) > MAX_DESCRIPTION_CHARS:
        description = description[: MAX_DESCRIPTION_CHARS - 1] + "…"
        notes.append(f"the description is longer than {MAX_DESCRIPTION_CHARS:,} characters")
    name = _line(fields.get("name"))[:MAX_NAME_CHARS] or folder.name
    if not NAME.fullmatch(name):
        notes.append(f'the name "{name}" is not lowercase letters, digits and single hyphens')
    elif name != folder.name:
        notes.append(f'the name "{name}" is not that of its folder')
    unknown = [field for field in document.fields if _fold(field) not in map(_fold, _FIELDS)]
    notes += [f'the field "{field[:40]}" has no effect' for field in unknown]
    level = _line(fields.get("effort")).casefold()
    effort = read_effort(level)
    if level and effort is None:
        notes.append(f'the effort "{level[:40]}" is not one of {", ".join(EFFORTS)}')
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
        remarks=tuple(notes),
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
