"""Flaws of a JSON schema that a person wrote: invalid parts, and parts that no value can match."""

import json
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from agent.i18n import t
from agent.tools.json_schema import Place, SchemaTooComplex, SchemaValidator, short_json

# Keywords whose operand is a value, in which `$ref` has no meaning.
_VALUES = frozenset({"enum", "const", "default", "examples"})
# Parts that the search looks at; references may lead to the same part again and again.
_MAX_PARTS = 10_000
# Keywords of a lower and an upper bound, and whether a value may be equal to both.
_NUMBER_BOUNDS = (
    ("minimum", "maximum", True),
    ("minimum", "exclusiveMaximum", False),
    ("exclusiveMinimum", "maximum", False),
    ("exclusiveMinimum", "exclusiveMaximum", False),
)
_BOUNDS_BY_TYPE = {
    "number": _NUMBER_BOUNDS,
    "integer": _NUMBER_BOUNDS,
    "string": (("minLength", "maxLength", True),),
    "array": (("minItems", "maxItems", True),),
    "object": (("minProperties", "maxProperties", True),),
}


def find_flaw(schema: object) -> str | None:
    """Return a sentence about the first flaw, or None.

    Not every contradiction is found. Raises `SchemaTooComplex`.
    """
    try:
        if (violation := SchemaValidator(_meta_schema()).find_violation(schema)) is not None:
            place = _name(violation.place)
            return f"{place} {violation.message}, found {short_json(violation.value)}"
        return (
            next(_lost_references(schema, schema, ()), None) or _ContradictionSearch(schema).run()
        )
    except RecursionError as exc:
        raise SchemaTooComplex from exc


@cache
def _meta_schema() -> object:
    return json.loads(Path(__file__).with_name("meta_schema.json").read_text("utf-8"))


def _lost_references(root: object, part: object, place: Place) -> Iterator[str]:
    """Yield a sentence for each reference to a part that the schema does not have."""
    if isinstance(part, list):
        for number, item in enumerate(part):
            yield from _lost_references(root, item, (*place, number))
    elif isinstance(part, Mapping):
        reference = part.get("$ref")
        local = reference if isinstance(reference, str) and reference[:1] == "#" else None
        if local is not None and SchemaValidator(root).part(local) is None:
            where = _name((*place, "$ref"))
            yield t("{place} names no part of the schema: {value}", place=where, value=local)
        for key, item in part.items():
            if key not in _VALUES:
                yield from _lost_references(root, item, (*place, key))


class _ContradictionSearch:
    """Search for a part of a schema that each value has to match, and none can."""

    def __init__(self, root: object) -> None:
        self._root = root
        self._validator = SchemaValidator(root)
        self._left_parts = _MAX_PARTS

    def run(self) -> str | None:
        return self._flaw(self._root, (), frozenset())

    def _flaw(self, schema: object, place: Place, outer: frozenset[int]) -> str | None:
        """Return a sentence if no value matches; `outer` are the parts around this one."""
        if schema is False:
            return t("{place} allows no value", place=_name(place))
        self._left_parts -= 1
        if not isinstance(schema, Mapping) or self._left_parts < 0:
            return None
        if id(schema) in outer:
            return t("{place} requires itself without end", place=_name(place))
        outer |= {id(schema)}
        for keyword in ("enum", "const"):
            if keyword in schema:
                values = schema["enum"] if keyword == "enum" else [schema["const"]]
                if any(self._fits(schema, value) for value in values):
                    return None
                where = _name((*place, keyword))
                return t("no value in {place} matches the rest of the schema", place=where)
        return self._parts(schema, place, outer) or self._types(schema, place, outer)

    def _fits(self, schema: object, value: object) -> bool:
        try:
            return self._validator.find_violation(value, schema) is None
        except SchemaTooComplex:
            return True

    def _parts(self, schema: Mapping[str, Any], place: Place, outer: frozenset[int]) -> str | None:
        if "$ref" in schema:
            target = self._validator.part(schema["$ref"])
            if flaw := self._flaw(target, (*place, "$ref"), outer):
                return flaw
        for number, part in enumerate(schema.get("allOf", ())):
            if flaw := self._flaw(part, (*place, "allOf", number), outer):
                return flaw
        for keyword in ("anyOf", "oneOf"):
            flaws = [
                self._flaw(part, (*place, keyword, number), outer)
                for number, part in enumerate(schema.get(keyword, ()))
            ]
            if flaws and all(flaws):
                return flaws[0]
        return None

    def _types(self, schema: Mapping[str, Any], place: Place, outer: frozenset[int]) -> str | None:
        operand = schema.get("type", ())
        names = [operand] if isinstance(operand, str) else operand
        flaws = [self._flaw_of_type(name, schema, place, outer) for name in names]
        return flaws[0] if flaws and all(flaws) else None

    def _flaw_of_type(
        self, name: str, schema: Mapping[str, Any], place: Place, outer: frozenset[int]
    ) -> str | None:
        """Return a sentence if no value of this type matches."""
        for low, high, may_be_equal in _BOUNDS_BY_TYPE.get(name, ()):
            if low in schema and high in schema:
                least, most = schema[low], schema[high]
                if least > most or (least == most and not may_be_equal):
                    return t(
                        "{place} allows no value: {low} is {least}, but {high} is {most}",
                        place=_name(place),
                        low=low,
                        least=least,
                        high=high,
                        most=most,
                    )
        inner = {"array": self._items, "object": self._members}.get(name)
        return None if inner is None else inner(schema, place, outer)

    def _items(self, schema: Mapping[str, Any], place: Place, outer: frozenset[int]) -> str | None:
        """Return a sentence about items that a list must have."""
        count = schema.get("minItems", 0)
        items = schema.get("items", True)
        first = items if isinstance(items, list) else schema.get("prefixItems", [])
        for number, part in enumerate(first[: int(count)]):
            if flaw := self._flaw(part, (*place, "prefixItems", number), outer):
                return flaw
        if count > len(first) and not isinstance(items, list):
            return self._flaw(items, (*place, "items"), outer)
        return None

    def _members(
        self, schema: Mapping[str, Any], place: Place, outer: frozenset[int]
    ) -> str | None:
        """Return a sentence about properties that an object must have."""
        properties = schema.get("properties", {})
        others = True if "patternProperties" in schema else schema.get("additionalProperties", True)
        for name in schema.get("required", ()):
            if name in properties:
                flaw = self._flaw(properties[name], (*place, "properties", name), outer)
            elif others is False:
                flaw = t(
                    "{place} requires {name}, but allows no such property",
                    place=_name(place),
                    name=short_json(name),
                )
            else:
                flaw = self._flaw(others, (*place, "additionalProperties"), outer)
            if flaw:
                return flaw
        return None


def _name(place: Place) -> str:
    return ".".join(map(str, place)) or t("the schema")
