"""Arguments of a call: schemas written short, checked, and explained in one sentence."""

import json
import math
from collections.abc import Callable, Mapping
from typing import Any

from agent.errors import ToolError
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
        """The arguments, without optional ones that are null; what models write as a string though
        it is a number, a list or the like is taken for that. Raises ToolError."""
        from fastjsonschema import JsonSchemaValueException

        properties = self._schema.get("properties", {})
        required = self._schema.get("required", ())
        arguments = {
            k: v for k, v in args.items() if v is not None or k in required or k not in properties
        }
        self._refuse_unknown(arguments, properties)
        arguments = {
            name: _coerced(value, properties.get(name, {})) for name, value in arguments.items()
        }
        try:
            self._compile()(arguments)
        except JsonSchemaValueException as exc:
            raise ToolError(self._sentence(exc)) from exc
        return arguments

    def _compile(self) -> Check:
        if self._check is None:
            import fastjsonschema

            try:
                self._check = fastjsonschema.compile(
                    dict(self._schema), use_default=False, formats={"date-time": _DATE_TIME}
                )
            except fastjsonschema.JsonSchemaDefinitionException as exc:
                raise ToolError(f"{self._tool} cannot be called: its schema is invalid.") from exc
        return self._check

    def _refuse_unknown(self, arguments: Mapping[str, Any], properties: Mapping[str, Any]) -> None:
        if self._schema.get("additionalProperties", not properties):
            return
        for name in arguments:
            if name not in properties:
                import difflib

                close = difflib.get_close_matches(name, properties, 1)
                hint = (
                    f"did you mean {close[0]}?" if close else f"it takes {', '.join(properties)}."
                )
                raise ToolError(f"{self._tool} has no argument {name!r}; {hint}")

    def _sentence(self, exc: Any) -> str:
        rule, expected = exc.rule, exc.rule_definition
        where = ".".join(exc.path[1:])
        if rule == "required":
            missing = [name for name in expected if name not in exc.value]
            place = f" in {where}" if where else ""
            present = f"found only {', '.join(exc.value)}" if exc.value else "found none"
            return f"{self._tool} needs the argument {missing[0]!r}{place}; {present}."
        if rule == "type":
            types = " or ".join(expected) if isinstance(expected, list) else expected
            actual = f"{_kind(exc.value)} {_short(exc.value)}"
            return f"{self._tool}: {where} must be of type {types}, found {actual}."
        what = exc.message.removeprefix(str(exc.name)).strip()
        return f"{self._tool}: {where} {what}, found {_short(exc.value)}."


def _coerced(value: Any, schema: Any) -> Any:
    """The value as the type that the schema names, where a string or a number says just that."""
    kind = schema.get("type") if isinstance(schema, dict) else None
    if isinstance(value, float) and kind == "integer" and value.is_integer():
        return int(value)
    if not isinstance(value, str) or kind not in _JSON_TYPES:
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


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else text[:60] + "…"
