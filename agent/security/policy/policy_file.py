"""Parser for policy.yaml in both of its formats; each mistake becomes one line with place and
cause.

The YAML is composed into nodes and never constructed, so it cannot refer to Python objects, and
every mistake has a line.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from agent.errors import ConfigError
from agent.i18n import mark_for_translation, t
from agent.records import frozen
from agent.security.audit import AuditLevel
from agent.security.policy.base import KnownTools
from agent.security.policy.roles import ANY, BUILT_IN, Role, ToolRule
from agent.text.similar_names import similar_names
from agent.text.visible import escape_line
from agent.types import PolicyScope

if TYPE_CHECKING:
    from yaml import Node


_MAX_LINES = 20

_TEXT, _FLAG, _SPECIAL = (
    mark_for_translation("a text"),
    mark_for_translation("true or false"),
    mark_for_translation("a special value"),
)

_KINDS = {"mapping": mark_for_translation("a mapping"), "sequence": mark_for_translation("a list")}

_SCALARS = {
    "str": _TEXT,
    "null": mark_for_translation("no value"),
    "bool": _FLAG,
    "int": mark_for_translation("a number"),
    "float": mark_for_translation("a number"),
    "timestamp": mark_for_translation("a date"),
}


@dataclass(slots=True)
class ErrorCollector:
    """Mistakes in a file, one line each, in order."""

    source: str
    lines: list[tuple[int, str]] = field(default_factory=list)
    # Nodes already read; reading a node again means an alias, which could be recursive.
    read_nodes: set[int] = field(default_factory=set)

    def raise_any(self) -> None:
        """Raise `ConfigError` if there are any mistakes."""
        if not self.lines:
            return
        lines = [line for _, line in sorted(dict.fromkeys(self.lines))]
        more = len(lines) - _MAX_LINES
        text_lines = lines[:_MAX_LINES]
        if more > 0:
            text_lines.append(t("{source}: … and {more} more", source=self.source, more=more))
        raise ConfigError("\n".join(text_lines))


@frozen
class NodeLocation:
    """Location of a value in the file, such as `roles.writer.tools`."""

    mistakes: ErrorCollector
    keys: tuple[str, ...] = ()

    def below(self, key: str) -> "NodeLocation":
        return NodeLocation(self.mistakes, (*self.keys, _printable(key)))

    def where(self, node: "Node") -> str:
        """Return file, line and key: the prefix of an error message."""
        line = node.start_mark.line + 1
        key = f"{'.'.join(self.keys)}: " if self.keys else ""
        return t("{source}: line {line}: ", source=self.mistakes.source, line=line) + key

    def wrong(self, node: "Node", message: str) -> None:
        self.mistakes.lines.append((node.start_mark.line + 1, f"{self.where(node)}{message}"))

    def is_first_visit(self, node: "Node") -> bool:
        """Return False and note a mistake for a node reached through an alias (`*name`)."""
        if id(node) in self.mistakes.read_nodes:
            self.wrong(node, t("found an alias (*name), expected the value written out"))
            return False
        self.mistakes.read_nodes.add(id(node))
        return True


def pairs(
    node: "Node", place: NodeLocation, allowed_keys: Sequence[str] = ()
) -> Iterator[tuple[str, tuple["Node", NodeLocation]]]:
    """Yield the distinct keys of a mapping with values and locations, restricted to
    `allowed_keys`."""
    if not place.is_first_visit(node):
        return
    if shape(node) != "mapping":
        place.wrong(node, t("found {found}, expected a mapping", found=kind(node)))
        return
    earlier_keys: set[str] = set()
    for key_node, value in node.value:
        key = text(key_node, place)
        if key is None:
            continue
        at = place.below(key)
        if key in earlier_keys:
            at.wrong(key_node, t("is listed twice"))
        elif allowed_keys and key not in allowed_keys:
            at.wrong(key_node, t("unknown key{guess}", guess=guess(key, allowed_keys)))
        else:
            earlier_keys.add(key)
            yield key, (value, at)


def text(node: "Node", place: NodeLocation) -> str | None:
    """Return a name or another short text, or None after a mistake."""
    if shape(node) != "scalar" or _kind(node) != _TEXT:
        quoted = shape(node) == "scalar" and node.value
        message = (
            t("found {found}, expected text; put it in quotes", found=_describe(node))
            if quoted
            else t("found {found}, expected text", found=_describe(node))
        )
        place.wrong(node, message)
        return None
    value = str(node.value)
    if not value.strip() or not value.isprintable():
        place.wrong(node, t("found an empty or unprintable text, expected plain text"))
        return None
    return value


def texts(node: "Node", place: NodeLocation) -> tuple[str, ...]:
    """Return a list of texts."""
    if not place.is_first_visit(node):
        return ()
    if shape(node) != "sequence":
        place.wrong(node, t("found {found}, expected a list such as [a, b]", found=_describe(node)))
        return ()
    items = (text(item, place) for item in node.value)
    return tuple(item for item in items if item is not None)


def flag(node: "Node", place: NodeLocation) -> bool:
    """Return a boolean; False after a mistake."""
    if shape(node) == "scalar" and _kind(node) == _FLAG:
        return str(node.value).casefold() in ("true", "yes", "on")
    place.wrong(node, t("found {found}, expected true or false", found=_describe(node)))
    return False


def shape(node: "Node") -> str:
    """Return `mapping`, `sequence` or `scalar`."""
    return str(getattr(node, "id", "scalar"))


def kind(node: "Node") -> str:
    """Return a description of a node."""
    return t(_kind(node))


def _kind(node: "Node") -> str:
    name = str(node.tag).rpartition(":")[2]
    return _KINDS.get(shape(node)) or _SCALARS.get(name, _SPECIAL)


def guess(name: str, names: Iterable[str]) -> str:
    """Return a hint for an unknown name: a similar name, or all names."""
    names = sorted(names)
    close = similar_names(name.casefold(), names)
    if close:
        return t('; did you mean "{close}"?', close=close[0])
    return t("; expected one of {known}", known=", ".join(names))


def _describe(node: "Node") -> str:
    if shape(node) != "scalar" or not node.value:
        return kind(node)
    return f'{kind(node)} "{_printable(str(node.value))}"'


def _printable(value: str) -> str:
    clean = escape_line(value[:41])
    return clean if len(clean) <= 40 else clean[:40] + "…"


SIZE_LIMIT_BYTES = 30_000

DEPTH_LIMIT = 50

_SCOPES: tuple[PolicyScope, ...] = get_args(PolicyScope)

_RULE_KEYS = ("allow", "ask", "new_files_only", *_SCOPES)


@frozen
class PolicyFile:
    """Content of a policy file, or the defaults without a file.

    `notes` report entries without effect.
    """

    roles: Mapping[str, Role] = field(default_factory=dict)
    audit_level: AuditLevel = "summary"
    notes: tuple[str, ...] = ()


def read_raw(path: Path) -> bytes:
    """Return the content of a policy file. Raises `ConfigError`."""
    try:
        if not path.is_file():
            raise ConfigError(t("{path}: policy file not found", path=path))
        with path.open("rb") as file:
            raw = file.read(SIZE_LIMIT_BYTES + 1)
    except (OSError, ValueError) as exc:
        reason = getattr(exc, "strerror", None) or t("the file name is not valid")
        message = t("{path}: the policy file cannot be read: {reason}", path=path, reason=reason)
        raise ConfigError(message) from None
    if len(raw) > SIZE_LIMIT_BYTES:
        raise ConfigError(
            t(
                "{path}: policy file is larger than {limit:,} bytes",
                path=path,
                limit=SIZE_LIMIT_BYTES,
            )
        )
    return raw


def decode_policy(raw: bytes, source: str, tools: KnownTools) -> PolicyFile:
    """Parse the bytes of a policy file."""
    try:
        return parse_policy(raw.decode("utf-8-sig"), source, tools)
    except UnicodeDecodeError as exc:
        raise ConfigError(
            t(
                "{path}: line {line}: byte 0x{byte:02x} is not valid UTF-8; save it as UTF-8",
                path=source,
                line=raw.count(b"\n", 0, exc.start) + 1,
                byte=raw[exc.start],
            )
        ) from None


def parse_policy(content: str, source: str, tools: KnownTools) -> PolicyFile:
    """Parse a policy file. `source` names it in mistakes.

    Raises `ConfigError` with one line per mistake: location, key, actual and expected value.
    """
    reader = _PolicyReader(source, tools)
    policy = reader.read(_compose(content, source))
    reader.mistakes.raise_any()
    return policy


def _compose(content: str, source: str) -> "Node | None":
    import yaml

    too_deep = t("{source}: nested too deeply for a policy file", source=source)
    if _depth(content) > DEPTH_LIMIT:
        raise ConfigError(too_deep)
    try:
        return yaml.compose(content, Loader=yaml.SafeLoader)
    except yaml.YAMLError as exc:
        mark: Any = getattr(exc, "problem_mark", None)
        where = f"{source}: "
        if mark:
            where = t("{source}: line {line}: ", source=source, line=mark.line + 1)
        problem = getattr(exc, "problem", None) or getattr(exc, "reason", None) or "not YAML"
        raise ConfigError(where + t("not valid YAML: {problem}", problem=problem)) from None
    except RecursionError:
        raise ConfigError(too_deep) from None


def _depth(content: str) -> int:
    """Return the nesting depth of brackets; parsing takes time quadratic in it."""
    depth = deepest = 0
    for char in content:
        if char in "[{":
            depth += 1
            deepest = max(deepest, depth)
        elif char in "]}":
            depth -= 1
    return deepest


class _PolicyReader:
    def __init__(self, source: str, tools: KnownTools) -> None:
        self.mistakes = ErrorCollector(source)
        self._source = source
        self._known_tools = tools
        self._closed = True
        self._notes: list[str] = []

    def read(self, root: "Node | None") -> PolicyFile:
        if root is None:
            return PolicyFile()
        place = NodeLocation(self.mistakes)
        audit_level: AuditLevel = "summary"
        sections = dict(pairs(root, place, ("default", "roles")))
        if "default" in sections:
            audit_level = self._default(*sections["default"])
        roles = {}
        if "roles" in sections:
            for name, (node, at) in pairs(*sections["roles"]):
                roles[name] = self._role(name, node, at)
        return PolicyFile(roles, audit_level, tuple(self._notes))

    def _default(self, node: "Node", place: NodeLocation) -> AuditLevel:
        level: AuditLevel = "summary"
        for key, (value, at) in pairs(node, place, ("deny_by_default", "audit_level")):
            if key == "deny_by_default":
                self._closed = flag(value, at)
                continue
            level_name = text(value, at)
            levels = {name: name for name in get_args(AuditLevel)}
            if level_name in levels:
                level = levels[level_name]
            elif level_name is not None:
                message = t('found "{found}", expected none, summary or full', found=level_name)
                at.wrong(value, message)
        return level

    def _role(self, name: str, node: "Node", place: NodeLocation) -> Role:
        sections = dict(pairs(node, place, ("tools", "scopes", "escalate")))
        tools: dict[str, ToolRule] = {}
        if "tools" not in sections:
            place.wrong(node, t('the key "tools" is missing'))
        elif shape(sections["tools"][0]) == "sequence":
            tools = self._read_tool_list(sections)
        else:
            tools = self._read_tool_map(*sections["tools"])
            if "scopes" in sections:
                message = t("only valid with a list of tools; put the scopes into each tool")
                sections["scopes"][1].wrong(sections["scopes"][0], message)
        if not self._closed:
            tools.setdefault(ANY, ToolRule())
        escalates = "escalate" in sections and self._escalates(*sections["escalate"])
        kinds = self._known_tools.kinds(tools)
        return Role(name, tools, self._source, escalates=escalates, kinds=kinds)

    def _escalates(self, node: "Node", place: NodeLocation) -> bool:
        word = text(node, place)
        if word not in (None, "ask", "deny"):
            place.wrong(node, t('found "{found}", expected ask or deny', found=word))
        return word == "ask"

    def _read_tool_map(self, node: "Node", place: NodeLocation) -> dict[str, ToolRule]:
        tools: dict[str, ToolRule] = {}
        for name, (value, at) in pairs(node, place):
            tool = self._tool(name, value, at)
            if tool in tools:
                at.wrong(value, t("an alias of {tool}, which is already listed", tool=tool))
            tools[tool] = _rule(value, at)
        return tools

    def _read_tool_list(
        self, sections: Mapping[str, tuple["Node", NodeLocation]]
    ) -> dict[str, ToolRule]:
        scopes: dict[str, tuple[str, ...]] = {}
        if "scopes" in sections:
            for key, (node, at) in pairs(*sections["scopes"], _SCOPES):
                scopes[key] = texts(node, at)
        node, place = sections["tools"]
        names = [self._listed_tool(name, node, place) for name in texts(node, place)]
        rules = {}
        for name in names:
            scope_keys = [
                key
                for key in _SCOPES
                if key in scopes and (name == ANY or self._known_tools.is_limited_by(name, key))
            ]
            values: dict[str, Any] = {key: scopes[key] for key in scope_keys}
            rules[name] = ToolRule(**values)
        return rules

    def _listed_tool(self, name: str, node: "Node", place: NodeLocation) -> str:
        """Return the tool of an entry in the older format.

        Other programs write names of their own tools there, and an unknown name allows nothing. But
        if everything else is allowed, a misspelt name could loosen a rule.
        """
        is_own = name == ANY or self._known_tools.canonical(name) is not None
        if self._closed and not is_own:
            names = self._known_tools.names
            message = t('unknown tool "{name}"{guess}', name=name, guess=guess(name, names))
            self._notes.append(f"{place.where(node)}{message}")
            return name
        return self._tool(name, node, place)

    def _tool(self, name: str, node: "Node", place: NodeLocation) -> str:
        if name == ANY:
            return name
        canonical = self._known_tools.canonical(name)
        if canonical is None:
            # A misspelt name would disable a rule.
            names = self._known_tools.names
            place.wrong(
                node, t('unknown tool "{name}"{guess}', name=name, guess=guess(name, names))
            )
        return canonical or name


def _rule(node: "Node", place: NodeLocation) -> ToolRule:
    if shape(node) == "scalar":
        # `exec:` without a value, and `exec: false`.
        return ToolRule() if node.tag.endswith(":null") else ToolRule(allow=flag(node, place))
    values: dict[str, Any] = {}
    for key, (value, at) in pairs(node, place, _RULE_KEYS):
        values[key] = texts(value, at) if key in _SCOPES else flag(value, at)
    return ToolRule(**values)


class _NamesAsWritten(KnownTools):
    """Tools of a built-in file, whose names are correct and need no lookup."""

    def canonical(self, name: str) -> str | None:
        return name


@cache
def built_in_roles() -> Mapping[str, Role]:
    """Return the built-in roles from `roles.yaml` next to this module."""
    text = Path(__file__).with_name("roles.yaml").read_text("utf-8")
    return parse_policy(text, BUILT_IN, _NamesAsWritten({})).roles
