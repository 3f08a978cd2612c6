"""Flaws of schemas that people write."""

from typing import Any

import pytest

from agent.tools.json_schema import SchemaValidator
from agent.tools.schema_flaws import find_flaw


@pytest.mark.parametrize(
    ("schema", "sentence"),
    [
        (
            {"properties": {"risk": {"type": "strin"}}},
            'properties.risk.type must be one of "array", "boolean", "integer", "null", "number",'
            ' "object", "string", found "strin"',
        ),
        (
            {"properties": {"risk": "string"}},
            'properties.risk must be of type object or boolean, found "string"',
        ),
        ({"required": "risk"}, 'required must be of type array, found "risk"'),
        ({"minLength": -1}, "minLength must be at least 0, found -1"),
        ({"enum": []}, "enum must have at least 1 items, found []"),
        (
            {"items": {"$ref": "#/$defs/item"}},
            "items.$ref names no part of the schema: #/$defs/item",
        ),
    ],
)
def test_invalid_part_is_named(schema: Any, sentence: str) -> None:
    assert find_flaw(schema) == sentence


@pytest.mark.parametrize(
    ("schema", "sentence"),
    [
        (
            {"type": "integer", "minimum": 5, "maximum": 3},
            "the schema allows no value: minimum is 5, but maximum is 3",
        ),
        (
            {"type": "number", "minimum": 1, "exclusiveMaximum": 1},
            "the schema allows no value: minimum is 1, but exclusiveMaximum is 1",
        ),
        (
            {"type": "string", "enum": [1, 2]},
            "no value in enum matches the rest of the schema",
        ),
        (
            {"type": "object", "required": ["a"], "additionalProperties": False},
            'the schema requires "a", but allows no such property',
        ),
        (
            {"type": "object", "required": ["a"], "properties": {"a": False}},
            "properties.a allows no value",
        ),
        (
            {"type": "array", "minItems": 1, "items": {"type": "string", "const": 1}},
            "no value in items.const matches the rest of the schema",
        ),
        (
            {"type": "object", "required": ["next"], "properties": {"next": {"$ref": "#"}}},
            "properties.next.$ref requires itself without end",
        ),
        ({"anyOf": [False, {"allOf": [False]}]}, "anyOf.0 allows no value"),
    ],
)
def test_schema_without_a_value_is_refused(schema: Any, sentence: str) -> None:
    assert find_flaw(schema) == sentence


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "properties": {"next": {"anyOf": [{"$ref": "#"}, {"type": "null"}]}}},
        {"type": ["integer", "null"], "minimum": 5, "maximum": 3},
        {"minimum": 5, "maximum": 3},
        {"type": "object", "required": ["a"], "patternProperties": {"^a": {}}},
        {"type": "array", "items": False},
        {"$schema": "https://json-schema.org/draft/2020-12/schema", "x-own": 1},
        {"default": {"$ref": "#/nowhere"}},
    ],
)
def test_usable_schema_is_accepted(schema: Any) -> None:
    assert find_flaw(schema) is None


def test_search_ends_with_many_references() -> None:
    parts = {str(n): {"anyOf": [{"$ref": f"#/$defs/{n + 1}"}] * 2 + [False]} for n in range(60)}
    schema = {"$ref": "#/$defs/0", "$defs": {**parts, "60": {"type": "string"}}}
    assert find_flaw(schema) is None
    assert SchemaValidator(schema).part("#/$defs/60") == {"type": "string"}
