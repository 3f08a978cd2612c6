"""Arguments of a call: schemas written short, checked, and explained in one sentence."""

import inspect
import json
import re
import typing
from collections.abc import Callable, Iterable, Mapping
from dataclasses import field
from datetime import datetime
from typing import Annotated, Any, NotRequired, get_args, get_origin

import pydantic_core
from pydantic import ConfigDict, Field, PydanticUserError, TypeAdapter, ValidationError
from typing_extensions import TypedDict

from agent.errors import ToolError
from agent.records import frozen
from agent.tools.base import CallContext
from agent.types import JsonSchema

Check = Callable[[Any], Any]

# RFC 3339 with a blank for the T, without seconds, and without a zone: models leave them out.
_DATE_TIME = r"^\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d(:\d\d([.,]\d+)?)?( ?([Zz]|[+-]\d\d(:?\d\d)?))?\Z"


def parameters(**kinds: str) -> JsonSchema:
    """A JSON schema of an object from `name="type"`; a trailing `?` makes it optional."""
    properties = {name: {"type": kind.rstrip("?")} for name, kind in kinds.items()}
    required = [name for name, kind in kinds.items() if not kind.endswith("?")]
    schema = {"type": "object", "properties": properties}
    return {**schema, "required": required} if required else schema


class ArgumentSchema:
    """The check of one tool's arguments; its schema is compiled when it is first used."""

    def __init__(self, tool: str, schema: JsonSchema) -> None:
        self._tool = tool
        self._schema = schema
        self._check: Check | None = None

    def validate(self, args: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments, without optional ones that are null. Raises ToolError."""
        from fastjsonschema import JsonSchemaValueException

        known = self._schema.get("properties", {})
        required = self._schema.get("required", ())
        given = {k: v for k, v in args.items() if v is not None or k in required or k not in known}
        self._refuse_unknown(given, known)
        try:
            self._compiled()(given)
        except JsonSchemaValueException as exc:
            raise ToolError(self._sentence(exc)) from exc
        return given

    def _compiled(self) -> Check:
        if self._check is None:
            import fastjsonschema

            try:
                self._check = fastjsonschema.compile(
                    dict(self._schema), use_default=False, formats={"date-time": _DATE_TIME}
                )
            except fastjsonschema.JsonSchemaDefinitionException as exc:
                raise ToolError(f"{self._tool} cannot be called: its schema is broken.") from exc
        return self._check

    def _refuse_unknown(self, given: Mapping[str, Any], known: Mapping[str, Any]) -> None:
        if self._schema.get("additionalProperties", not known):
            return
        for name in given:
            if name not in known:
                import difflib

                close = difflib.get_close_matches(name, known, 1)
                hint = f"did you mean {close[0]}?" if close else f"it takes {', '.join(known)}."
                raise ToolError(f"{self._tool} has no argument {name!r}; {hint}")

    def _sentence(self, exc: Any) -> str:
        rule, expected = exc.rule, exc.rule_definition
        where = ".".join(exc.path[1:])
        if rule == "required":
            missing = [name for name in expected if name not in exc.value]
            place = f" in {where}" if where else ""
            got = f"found only {', '.join(exc.value)}" if exc.value else "found none"
            return f"{self._tool} needs the argument {missing[0]!r}{place}; {got}."
        if rule == "type":
            wanted = " or ".join(expected) if isinstance(expected, list) else expected
            found = f"{_kind(exc.value)} {_short(exc.value)}"
            return f"{self._tool}: {where} must be of type {wanted}, found {found}."
        what = exc.message.removeprefix(str(exc.name)).strip()
        return f"{self._tool}: {where} {what}, found {_short(exc.value)}."


def _kind(value: Any) -> str:
    kinds: list[tuple[type | tuple[type, ...], str]] = [
        (bool, "boolean"),
        ((int, float), "number"),
        (str, "string"),
        (list, "array"),
        (dict, "object"),
    ]
    return next((name for kind, name in kinds if isinstance(value, kind)), "null")


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else text[:60] + "…"


_SECTION = re.compile(
    r"(Args|Arguments|Parameters|Params|Returns?|Yields?|Raises|Examples?|Notes?|See Also):?"
)

_ARGUMENTS = frozenset({"Args", "Arguments", "Parameters", "Params"})

_UNDERLINE = re.compile(r"-{3,}")

# `city: where` and `city (str): where`; NumPy's `city : str` has its text below.
_ENTRY = re.compile(r"\*{0,2}(\w+)\s*(?:\([^)]*\))?\s*:(?:\s+(.*))?")

_FIELD = re.compile(r":(?:param|parameter|arg|argument)\s+(?:[^:]*\s)?\*{0,2}(\w+)\s*:\s*(.*)")

_OTHER_FIELD = re.compile(r":\w+[^:]*:")


@frozen
class Docstring:
    """The text in front of the sections, and what is said of each argument.

    Google's, NumPy's and Sphinx's ways to write sections are understood.
    """

    text: str
    arguments: Mapping[str, str] = field(default_factory=dict)

    @staticmethod
    def of(docstring: str) -> "Docstring":
        lines = inspect.cleandoc(docstring).split("\n")
        text: list[str] = []
        told: dict[str, list[str]] = {}
        section = ""
        for n, line in enumerate(lines):
            if (found := _FIELD.fullmatch(line.strip())) or _OTHER_FIELD.match(line):
                section = "field"
                if found:
                    told[found[1]] = [found[2]]
            elif _opens(lines, n):
                section = line.rstrip(": ")
            elif not section:
                text.append(line)
            elif section == "field" and told and line.strip():
                told[next(reversed(told))].append(line)
            elif section in _ARGUMENTS:
                _take(line, lines[n + 1 :], told)
        return Docstring(
            "\n".join(text).strip(),
            {name: said for name, words in told.items() if (said := _joined(words))},
        )


def _opens(lines: list[str], n: int) -> bool:
    """Whether a section begins here: with a colon, or with a line under it."""
    if not _SECTION.fullmatch(lines[n]):
        return False
    return lines[n].endswith(":") or bool(lines[n + 1 :] and _UNDERLINE.fullmatch(lines[n + 1]))


def _take(line: str, following: list[str], told: dict[str, list[str]]) -> None:
    """A line of the arguments' section: a new argument, or more about the last one."""
    if not line.strip() or _UNDERLINE.fullmatch(line.strip()):
        return
    indent = _indent(line)
    if (found := _ENTRY.fullmatch(line.strip())) and (indent == 0 or _is_outermost(line, told)):
        below = next((other for other in following if other.strip()), "")
        # NumPy: what stands behind the colon is a type, and the text is indented below it.
        numpy = indent == 0 and _indent(below) > 0
        told[found[1]] = [" " * indent] + ([] if numpy else [found[2] or ""])
    elif told:
        told[next(reversed(told))].append(line)


def _is_outermost(line: str, told: Mapping[str, list[str]]) -> bool:
    """Arguments are indented alike; what is deeper belongs to one."""
    first = next(iter(told.values()), None)
    return first is None or _indent(line) <= len(first[0])


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


def _joined(words: Iterable[str]) -> str:
    return " ".join(" ".join(words).split())


@frozen
class FunctionSchema:
    """`context` names the argument that is given the call; the others stand in `schema`."""

    name: str
    schema: JsonSchema
    adapter: TypeAdapter[Any]
    context: str | None

    @staticmethod
    def of(name: str, function: Callable[..., Any], told: Mapping[str, str]) -> "FunctionSchema":
        """Raises TypeError for a type hint that no JSON can be made of."""
        fields: dict[str, Any] = {}
        context = None
        hints = _hints(name, function)
        for parameter in inspect.signature(function).parameters.values():
            hint = hints[parameter.name]
            if hint is CallContext:
                context = parameter.name
                continue
            hint = _described(hint, told.get(parameter.name))
            required = parameter.default is parameter.empty
            fields[parameter.name] = hint if required else NotRequired[hint]
        made: Any = TypedDict
        arguments = made("Arguments", fields)
        arguments.__pydantic_config__ = ConfigDict(hide_input_in_errors=True)
        try:
            adapter = TypeAdapter(arguments)
            schema = _plain(adapter.json_schema())
        except PydanticUserError as exc:
            reason = str(exc).split("\n")[0]
            raise TypeError(f"{name}: a type hint cannot be told to a model: {reason}") from exc
        return FunctionSchema(name, schema, adapter, context)

    def arguments(self, args: Mapping[str, Any], call: CallContext) -> dict[str, Any]:
        """What the function is called with. Raises `ToolError` for what its hints do not allow."""
        try:
            given: dict[str, Any] = self.adapter.validate_python(dict(args))
        except ValidationError as exc:
            first = exc.errors(include_input=False, include_url=False)[0]
            where = ".".join(map(str, first["loc"]))
            what = first["msg"][:1].lower() + first["msg"][1:]
            raise ToolError(f"{self.name}: {where}: {what}.") from exc
        given = {name: _zoned(value) for name, value in given.items()}
        return {**given, self.context: call} if self.context else given

    def text(self, value: Any) -> str:
        """What a function has returned, as the model reads it. Raises `ToolError`."""
        if isinstance(value, str):
            return value
        if value is None:
            return ""
        try:
            return pydantic_core.to_json(value).decode()
        except (ValueError, TypeError) as exc:
            kind = type(value).__name__
            raise ToolError(
                f"{self.name} failed: it returned {kind}, which is no text and no JSON."
            ) from exc


def _zoned(value: Any) -> Any:
    """With this machine's time zone for every time that came without one."""
    match value:
        case datetime() if value.tzinfo is None:
            return value.astimezone()
        case list():
            return [_zoned(one) for one in value]
        case dict():
            return {key: _zoned(one) for key, one in value.items()}
    return value


def _hints(name: str, function: Callable[..., Any]) -> dict[str, Any]:
    try:
        return typing.get_type_hints(inspect.unwrap(function), include_extras=True)
    except NameError as exc:
        raise TypeError(f"{name}: a type hint names what cannot be found: {exc}") from exc


def _described(hint: Any, told: str | None) -> Any:
    """The hint with what is said of it: in the hint itself, or else in the docstring."""
    if get_origin(hint) is Annotated:
        said = [word for word in get_args(hint)[1:] if isinstance(word, str)]
        told = said[0] if said else told
    return Annotated[hint, Field(description=told)] if told else hint


def _plain(schema: dict[str, Any]) -> JsonSchema:
    """Without titles, and with every reference resolved: some vendors know neither.

    Optional arguments lose their null, since the model can leave them out.
    """
    found = schema.pop("$defs", {})
    plain: dict[str, Any] = _resolved(schema, found, ())
    required = plain.get("required", ())
    properties = plain.setdefault("properties", {})
    for name, each in properties.items():
        if name not in required:
            properties[name] = _without_null(each)
    return plain


def _resolved(node: Any, found: Mapping[str, Any], inside: tuple[str, ...]) -> Any:
    if isinstance(node, list):
        return [_resolved(each, found, inside) for each in node]
    if not isinstance(node, dict):
        return node
    if isinstance(reference := node.get("$ref"), str):
        name = reference.rpartition("/")[2]
        if name in inside:
            # It contains itself: below here anything goes, and pydantic checks it.
            return {"type": "object"}
        beside = {key: value for key, value in node.items() if key != "$ref"}
        return _resolved({**found[name], **beside}, found, (*inside, name))
    plain = {}
    for key, value in node.items():
        if key == "properties":
            plain[key] = {name: _resolved(each, found, inside) for name, each in value.items()}
        elif (key != "title" or not isinstance(value, str)) and (key, value) != ("default", None):
            plain[key] = _resolved(value, found, inside)
    return plain


def _without_null(node: dict[str, Any]) -> dict[str, Any]:
    kinds = node.get("anyOf", [])
    others = [kind for kind in kinds if kind != {"type": "null"}]
    if len(others) != 1 or len(kinds) != 2:
        return node
    return {**others[0], **{key: value for key, value in node.items() if key != "anyOf"}}
