"""Traits of tools: the facts about a tool that are the same for all of its calls."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any, get_args

from agent.i18n import mark_for_translation, t
from agent.records import frozen
from agent.types import PolicyScope, ToolKind, ToolPurpose

Arguments = Mapping[str, Any]

# Label of a tool without a label of its own.
PLAIN_LABEL = mark_for_translation("Using {tool}")

# Alternative names that models use for common arguments.
PATH_ALIASES = dict.fromkeys(("file_path", "filepath", "file", "filename"), "path")
FOLDER_ALIASES = dict.fromkeys(("dir", "directory", "folder"), "path")
TEXT_ALIASES = dict.fromkeys(("text", "contents"), "content")
# Command hooks of Claude Code know the argument `path` by this name.
CLAUDE_PATH = {"path": "file_path"}


def no_paths(arguments: Arguments) -> Sequence[str]:
    """Return no paths: the arguments name no file that the call is known to touch."""
    return ()


def path_argument(arguments: Arguments) -> Sequence[str]:
    """Return the value of the argument `path`."""
    path = arguments.get("path")
    return (path,) if isinstance(path, str) else ()


def nothing_delivered(arguments: Arguments, result: str) -> Sequence[str]:
    """Return nothing: the call sends no files to the person."""
    return ()


@frozen
class ToolTraits:
    """Facts about a tool for other modules, in addition to its description and schema.

    - `scopes`: limits of a policy rule that apply to the tool.
    - `label`: description of a call, in English. `{name}` is replaced with the argument of that
      name, `{tool}` with the tool; its arguments distinguish one call from another.
    - `paths`: files of a call, from arguments under the tool's own names.
    - `aliases`, `argument_aliases`: names that models trained elsewhere use for the tool, folded
      (see `folded`), and for its arguments. `item_aliases`: the same for fields of the objects in
      a list. `ignored_arguments` have no effect.
    - `claude_names`, `claude_arguments`: names in command hooks written for Claude Code.
    - `quiet`: a call is not announced while it runs.
    - `shows_file`: a result is the numbered text of a file.
    - `only_adds`: a file that a call changes keeps its content.
    - `has_costly_plan`: planning a call starts servers or asks them.
    - `delivered`: files that a call sent to the person, from its arguments and its result.
    - `governed_by`: the tool whose rule applies where a role does not name this tool.
    - `edits_by_patch`: whether the tool edits files by patches or by replacing strings; each model
      gets the kind that suits it. None for other tools.
    - `companion_of`: a role with this companion and a tool that edits text may use this tool, too.
    """

    kind: ToolKind
    scopes: tuple[PolicyScope, ...] = ()
    label: str = PLAIN_LABEL
    paths: Callable[[Arguments], Sequence[str]] = no_paths
    aliases: tuple[str, ...] = ()
    argument_aliases: Mapping[str, str] = field(default_factory=dict)
    item_aliases: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    ignored_arguments: frozenset[str] = frozenset()
    claude_names: tuple[str, ...] = ()
    claude_arguments: Mapping[str, str] = field(default_factory=dict)
    purpose: ToolPurpose | None = None
    quiet: bool = False
    shows_file: bool = False
    only_adds: bool = False
    has_costly_plan: bool = False
    delivered: Callable[[Arguments, str], Sequence[str]] = nothing_delivered
    governed_by: str | None = None
    edits_by_patch: bool | None = None
    companion_of: str | None = None

    @property
    def names_changed_files(self) -> bool:
        """True if the arguments of a call name the files that it changes."""
        return self.kind in ("edit", "move", "delete") and self.paths is not no_paths

    @property
    def edits_text(self) -> bool:
        """True if calls edit the text of files that they name, or run commands that may."""
        return (self.kind == "edit" and self.paths is not no_paths) or self.runs_commands

    @property
    def runs_commands(self) -> bool:
        """True if calls run shell commands."""
        return self.kind == "execute" and "commands" in self.scopes


# Traits of a tool that declares none: every scope limits it.
UNKNOWN = ToolTraits("other", get_args(PolicyScope))


def traits_of(tool: object) -> ToolTraits:
    """Return the `traits` that a tool declares, or `UNKNOWN`."""
    traits: ToolTraits = getattr(tool, "traits", UNKNOWN)
    return traits


_FIELD = re.compile(r"\{(\w+)\}")
# Argument name of the part that names the tool.
TOOL = "tool"


@frozen
class LabelPart:
    """Part of a filled label: words, or the value of an `argument`."""

    text: str
    argument: str = ""


def label_parts(label: str, tool: str, arguments: Mapping[str, Any]) -> tuple[LabelPart, ...]:
    """Return a description of the call in the current language.

    Without the arguments that the label names, only the tool is named.
    """
    fields = _FIELD.findall(label)
    values = {name: text for name in fields if (text := _value(arguments.get(name))).strip()}
    if not label or (fields and not values):
        label, values = PLAIN_LABEL, {TOOL: tool}
    # Pieces at odd positions are names of fields.
    pieces = _FIELD.split(t(label))
    parts: list[LabelPart] = []
    words = ""
    for n, piece in enumerate(pieces):
        if n % 2 == 0:
            words += piece
        elif piece in values:
            parts += [*_words(words, is_first=not parts), LabelPart(values[piece], piece)]
            words = ""
    return (*parts, *_words(words.rstrip(), is_first=not parts))


def _value(value: Any) -> str:
    if isinstance(value, list | tuple):
        value = ", ".join(map(str, value))
    return "" if value is None else str(value)


def _words(text: str, *, is_first: bool) -> Iterator[LabelPart]:
    """Yield the words without gaps from missing arguments."""
    text = re.sub(" {2,}", " ", text.lstrip() if is_first else text)
    if text:
        yield LabelPart(text)
