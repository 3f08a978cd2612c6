"""Argument schemas of tools: short notation, validation and one-sentence errors."""

import json
import math
from collections.abc import Mapping
from typing import Any

from agent.errors import ToolError
from agent.text.similar_names import similar_names
from agent.tools.json_schema import SchemaTooComplex, SchemaValidator, Violation, short_json
from agent.types import JsonSchema

_ALIKE_CHARS = 64
_ALIKE_NAMES = 200
_SENTENCE_CHARS = 2_000


def parameters(**kinds: str) -> JsonSchema:
    """Return the JSON schema of an object from `name="type"`.

    A trailing `?` makes an argument optional; `"one|two"` allows only these words.
    """
    properties = {name: _kind_schema(kind.rstrip("?")) for name, kind in kinds.items()}
    required = [name for name, kind in kinds.items() if not kind.endswith("?")]
    schema = {"type": "object", "properties": properties}
    return {**schema, "required": required} if required else schema


def _kind_schema(kind: str) -> JsonSchema:
    words = kind.split("|")
    return {"type": "string", "enum": words} if len(words) > 1 else {"type": kind}


def properties_of(schema: JsonSchema) -> Mapping[str, Any]:
    """Return the properties that a schema names; none if it is malformed."""
    properties = schema.get("properties")
    return properties if isinstance(properties, Mapping) else {}


class ArgumentSchema:
    """Arguments of a tool: converted from what models write, and validated against its schema."""

    def __init__(self, tool: str, schema: JsonSchema) -> None:
        self._tool = tool
        self._schema = schema
        self._validator: SchemaValidator | None = None

    def validate(self, args: Mapping[str, Any]) -> dict[str, Any]:
        """Convert and check the arguments. Raises ToolError."""
        arguments = self.read(args)
        self.check(arguments)
        return arguments

    def read(self, args: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments without optional arguments that are null.

        Values are converted where their meaning is certain: a string of a number or list, a list of
        one string for that string, an enumerated word in other case, and a string for an object
        with one required string. Raises ToolError for an argument that the tool does not have.
        """
        properties = properties_of(self._schema)
        required = self._schema.get("required")
        required = required if isinstance(required, list | tuple) else ()
        arguments = {
            k: v for k, v in args.items() if v is not None or k in required or k not in properties
        }
        self._refuse_unknown(arguments, properties)
        return {name: _coerced(value, properties.get(name)) for name, value in arguments.items()}

    def check(self, arguments: Mapping[str, Any]) -> None:
        """Raise ToolError unless the arguments fit the schema."""
        if self._validator is None:
            self._validator = SchemaValidator(self._schema)
        try:
            violation = self._validator.find_violation(arguments)
        except SchemaTooComplex as exc:
            raise ToolError(
                f"{self._tool} was not called: its arguments, or the schema of its server, are too "
                "large or too deep to be checked."
            ) from exc
        if violation is not None:
            raise ToolError(self._sentence(violation))

    def _refuse_unknown(self, arguments: Mapping[str, Any], properties: Mapping[str, Any]) -> None:
        if self._schema.get("additionalProperties", not properties):
            return
        for name in arguments:
            if name not in properties:
                # Searching for similar names takes long if the names are long.
                names = [name for name in properties if len(name) <= _ALIKE_CHARS][:_ALIKE_NAMES]
                close = similar_names(name[:_ALIKE_CHARS], names)
                hint = f"did you mean {close[0]}?" if close else f"it takes {', '.join(names)}."
                raise ToolError(_clipped(f"{self._tool} has no argument {name[:80]!r}; {hint}"))

    def _sentence(self, violation: Violation) -> str:
        where = ".".join(map(str, violation.place))
        if violation.rule == "required":
            place = f" in {where}" if where else ""
            names = ", ".join(violation.value)
            present = f"found only {names}" if names else "found none"
            needed = f"needs the argument {violation.expected[:80]!r}{place}"
            return _clipped(f"{self._tool} {needed}; {present}.")
        subject = where or "the call"
        value = short_json(violation.value)
        if violation.rule == "type":
            value = f"{_kind(violation.value)} {value}"
        return _clipped(f"{self._tool}: {subject} {violation.message}, found {value}.")


def _clipped(sentence: str) -> str:
    """Return a sentence cut to a readable length for a model, without split characters."""
    text = sentence.encode("utf-8", "backslashreplace").decode()
    return text if len(text) <= _SENTENCE_CHARS else f"{text[:_SENTENCE_CHARS]}…"


def _coerced(value: Any, schema: Any) -> Any:
    """Return the value in the form that the schema requires, if its meaning is certain."""
    kind = schema.get("type") if isinstance(schema, Mapping) else None
    match value:
        case str() if kind == "string":
            return _enumerated(value, schema.get("enum"))
        case [str(text)] if kind == "string":
            return _enumerated(text, schema.get("enum"))
        case str() if kind == "object" and (name := _only_required_text(schema)):
            read = _parsed(value, "object")
            return {name: value} if read is value else read
        case str() if isinstance(kind, str):
            value = _parsed(value, kind)
        case float() if kind == "integer" and value.is_integer():
            return int(value)
    if isinstance(value, list) and kind == "array":
        return [_coerced(item, schema.get("items")) for item in value]
    return value


def _enumerated(text: str, words: Any) -> str:
    """Return the word that equals the text except for case and surrounding space, else the text."""
    choices = [word for word in words if isinstance(word, str)] if isinstance(words, list) else []
    if text in choices:
        return text
    return next((word for word in choices if word.casefold() == text.strip().casefold()), text)


def _only_required_text(schema: Mapping[str, Any]) -> str | None:
    """Return the name of an object's only required property, if that is a string."""
    match schema.get("required"):
        case [str(name)] if properties_of(schema).get(name) == {"type": "string"}:
            return name
    return None


def _parsed(value: str, kind: str) -> Any:
    """Return the JSON in a string if it is of this kind, else the string."""
    if kind not in _JSON_TYPES:
        return value
    try:
        read = json.loads(value.strip().lower() if kind == "boolean" else value)
    except (ValueError, RecursionError):
        return value
    fits = isinstance(read, _JSON_TYPES[kind]) and isinstance(read, bool) == (kind == "boolean")
    if isinstance(read, float) and not math.isfinite(read):
        return value
    return read if fits else value


_JSON_TYPES: dict[str, type | tuple[type, ...]] = {
    "integer": int,
    "number": (int, float),
    "boolean": bool,
    "array": list,
    "object": dict,
}


def _kind(value: Any) -> str:
    kinds: list[tuple[type | tuple[type, ...], str]] = [
        (bool, "boolean"),
        ((int, float), "number"),
        (str, "string"),
        (list, "array"),
        (dict, "object"),
    ]
    return next((name for kind, name in kinds if isinstance(value, kind)), "null")
