"""Agent definitions, read from markdown files of any supported program."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field, fields, replace
from functools import cache
from typing import Any, Literal

from agent.records import frozen
from agent.security.policy.base import KnownTools, PermissionMode, is_named, tightest
from agent.text import frontmatter
from agent.text.plugin_names import title_of
from agent.text.similar_names import folded
from agent.turn.tool_catalog import known_tools

BUILT_IN = "built in"
_NAME_CHARS = 64
_MAX_DESCRIPTION_CHARS = 4_000
_SPLIT = re.compile(r"[,\s]+(?![^(]*\))")
# Profiles for the model names of other programs.
_MODELS = {"haiku": "quick", "sonnet": "task", "opus": "default", "opusplan": "default"}
_FULL = re.compile(r"(?:anthropic/)?claude-[\w.-]*(haiku|sonnet|opus)[\w.@:-]*")
_LONG = re.compile(r"\[\d+m\]$")
_MODES: Mapping[str, PermissionMode] = {
    "plan": "plan",
    "ask": "ask",
    "acceptedits": "accept-edits",
    "auto": "auto",
    "bypasspermissions": "auto",
    "dontask": "auto",
}
_EVERY = re.compile(r"(?:\*|all)(?: tools)?(?:,? (?:except|but) (.*))?", re.IGNORECASE)
# Characters left around a name in an invalid YAML list or in markdown code.
_AROUND = "\"'`[] \t"
_TRUE, _FALSE = frozenset({"true", "yes", "on", "1"}), frozenset({"false", "no", "off", "0", ""})


@frozen
class SubagentDefinition:
    """Definition of an agent.

    `tools` are canonical names, None for all; `without` is subtracted from them. `model` is a
    profile (default, task, reasoning, quick) or a model's name, None for the model of the calling
    agent. `mode` can only tighten permissions. With `isolation` it works in a git worktree. If
    `trusted` is false, the definition came with a project's folder or a `plugin`. `more` contains
    fields without a meaning here, `remarks` are for people.
    """

    name: str
    description: str
    prompt: str
    tools: tuple[str, ...] | None = None
    without: tuple[str, ...] = ()
    model: str | None = None
    mode: PermissionMode | None = None
    max_turns: int | None = None
    background: bool = False
    isolation: Literal["worktree"] | None = None
    skills: tuple[str, ...] = ()
    color: str | None = None
    source: str = ""
    trusted: bool = True
    plugin: str = ""
    more: Mapping[str, Any] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """Name that no agent of another plugin has."""
        return title_of(self)

    @classmethod
    def of_data(cls, data: Mapping[str, Any]) -> "SubagentDefinition":
        """Return the definition from `asdict` data, possibly from JSON or from another version."""
        values = {
            attribute.name: data[attribute.name]
            for attribute in fields(cls)
            if attribute.name in data
        }
        for name in ("tools", "without", "skills", "remarks"):
            if values.get(name) is not None:
                values[name] = tuple(values[name])
        return cls(**values)

    def held_to(self, mode: PermissionMode | None) -> "SubagentDefinition":
        """Return the definition with a mode at least as tight as `mode`."""
        if mode is None:
            return self
        return replace(self, mode=tightest(mode, self.mode or mode))

    def chooses(self, tool: str) -> bool:
        """Return whether this agent gets a tool, by its canonical name."""
        if is_named(tool, self.without):
            return False
        return self.tools is None or is_named(tool, _with_companions(self.tools))


def read_definition(
    raw: bytes, stem: str, source: str, *, trusted: bool = True
) -> SubagentDefinition:
    """Return the agent of a file; `stem` is the default name. No content is rejected."""
    text, remarks = frontmatter.decode(raw)
    document = frontmatter.read(text)
    values = _Fields(document.fields, [*remarks, *document.remarks])
    name = _line(values.text("name"))[:_NAME_CHARS] or stem
    description = values.text("description").strip()[:_MAX_DESCRIPTION_CHARS]
    return SubagentDefinition(
        name=name,
        description=description or _first_line(document.body),
        prompt=document.body,
        tools=values.tools("tools", "allowed-tools"),
        without=values.without(),
        model=values.model(),
        mode=values.mode(),
        max_turns=values.count("maxTurns"),
        background=values.flag("background"),
        isolation=values.isolation(),
        skills=tuple(values.words("skills") or ()),
        color=_line(values.text("color")) or None,
        source=source,
        trusted=trusted,
        more=dict(values.rest()),
        remarks=tuple(values.remarks),
    )


class _Fields:
    """Fields by name, ignoring case, `-` and `_`."""

    def __init__(self, fields: Mapping[str, Any], remarks: list[str]) -> None:
        self._fields = fields
        self._names = {folded(name): name for name in reversed(list(fields))}
        self._used: set[str] = set()
        self.remarks = remarks

    def text(self, *names: str) -> str:
        value = self._get(*names)
        if value is None:
            return ""
        if isinstance(value, list):
            return ", ".join(map(str, value))
        return str(value)

    def words(self, *names: str) -> list[str] | None:
        """Return a list, or text split at commas and spaces outside parentheses; None if unset."""
        value = self._get(*names)
        if value is None:
            return None
        if not isinstance(value, list):
            value = _SPLIT.split(str(value))
        return [word for item in value if (word := str(item).strip(_AROUND))]

    def tools(self, *names: str) -> tuple[str, ...] | None:
        """Return canonical names, without scopes such as `Bash(git:*)`; None for all tools."""
        if isinstance(switches := self._get(*names), dict):
            return _tools_switched(switches, on=True) if switches.get("*") is False else None
        words, text = self.words(*names), self.text(*names).strip(_AROUND)
        if words is None or "*" in words or _EVERY.fullmatch(text) or (text and not words):
            return None
        return self._canonical_names(words)

    def without(self) -> tuple[str, ...]:
        """Return the excluded tools: from their own field, from switches or as exceptions."""
        names = self._canonical_names(self.words("disallowedTools") or ())
        if isinstance(switches := self._get("tools"), dict):
            return (*names, *_tools_switched(switches, on=False))
        every = _EVERY.fullmatch(self.text("tools", "allowed-tools").strip(_AROUND))
        return (
            *names,
            *self._canonical_names(_SPLIT.split(every[1]) if every and every[1] else ()),
        )

    def _canonical_names(self, words: Iterable[str]) -> tuple[str, ...]:
        names = []
        for word in words:
            name = word.partition("(")[0].strip(_AROUND)
            if "(" in word:
                self.remarks.append(f'"{word}": the part in parentheses has no effect')
            names.append(canonical(name))
        return tuple(dict.fromkeys(filter(None, names)))

    def model(self) -> str | None:
        return model_of(self.text("model", "model_name"))

    def mode(self) -> PermissionMode | None:
        name = folded(_line(self.text("permissionMode")))
        if name and name not in (*_MODES, "default"):
            self.remarks.append(f'permissionMode "{name}" is unknown and has no effect')
        return _MODES.get(name)

    def count(self, *names: str) -> int | None:
        value = self.text(*names).strip()
        if value.isdecimal() and 0 < len(value) < 7 and int(value) > 0:
            return int(value)
        if value:
            self.remarks.append(f'{names[0]} "{value[:40]}" is not a count and has no effect')
        return None

    def flag(self, *names: str) -> bool:
        value = self.text(*names).strip().casefold()
        if value not in _TRUE | _FALSE:
            self.remarks.append(f'{names[0]} "{value[:40]}" is neither true nor false')
        return value in _TRUE

    def isolation(self) -> Literal["worktree"] | None:
        value = folded(_line(self.text("isolation")))
        if value == "worktree":
            return "worktree"
        if value not in ("", "none"):
            self.remarks.append(f'isolation "{value[:40]}" is unknown and has no effect')
        return None

    def rest(self) -> Iterator[tuple[str, Any]]:
        """Yield the fields that were not read."""
        for name, value in self._fields.items():
            if name not in self._used:
                self.remarks.append(f'the field "{name[:40]}" has no effect')
                yield name, value

    def _get(self, *names: str) -> Any:
        for name in names:
            own = self._names.get(folded(name))
            if own is not None:
                self._used.add(own)
                return self._fields[own]
        return None


def model_of(text: str | None) -> str | None:
    """Return the profile or model for a name; None for the caller's model."""
    name = _line(text or "")
    if name.casefold() in ("", "inherit"):
        return None
    return _MODELS.get(_LONG.sub("", name.casefold()), name)


def family_of(model: str) -> str | None:
    """Return the profile that replaces a model by its full name, such as claude-haiku-4."""
    full = _FULL.fullmatch(_LONG.sub("", model.casefold()))
    return _MODELS[full[1]] if full else None


def _tools_switched(switches: Mapping[str, Any], *, on: bool) -> tuple[str, ...]:
    """Return the tools that are switched on, or off, in a map from names to true or false."""
    return tuple(canonical(name) for name, value in switches.items() if value is on and name != "*")


def canonical(tool: str) -> str:
    """Return the canonical name of a tool; return an unknown name unchanged."""
    return tool if "__" in tool else _known_tools().canonical(tool) or tool


@cache
def _known_tools() -> KnownTools:
    return known_tools()


@cache
def _with_companions(names: tuple[str, ...]) -> frozenset[str]:
    return _known_tools().with_companions(names)


def _line(text: str) -> str:
    return " ".join(text.split())


def _first_line(body: str) -> str:
    lines = (line.strip("#* \t") for line in body.split("\n"))
    return next((line for line in lines if line), "")[:200]
