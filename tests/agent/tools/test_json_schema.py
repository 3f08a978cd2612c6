"""The JSON Schema validator: accepted values, and robustness against hostile schemas."""

import time
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as some

from agent.errors import ToolError
from agent.tools.json_schema import SchemaTooComplex, SchemaValidator
from agent.tools.schema import ArgumentSchema
from agent.tools.schema_flaws import find_flaw
from tests.agent.tools.hostile_schemas import COSTLY_SCHEMAS, HOSTILE_ARGUMENTS, HOSTILE_SCHEMAS

NAMES = some.sampled_from(["a", "b", "ab", "x1"])
NUMBERS = some.integers(-4, 4) | some.sampled_from([0.5, 1.0, 2.5, -0.5, 1e300])
SCALARS = some.none() | some.booleans() | NUMBERS | some.text("abé1", max_size=4)
VALUES = some.recursive(
    SCALARS,
    lambda inner: some.lists(inner, max_size=4) | some.dictionaries(NAMES, inner, max_size=3),
    max_leaves=8,
)
TYPES = some.sampled_from(["string", "number", "integer", "boolean", "null", "array", "object"])
SIZES = some.integers(0, 3)
PATTERNS = some.sampled_from(["^a", "b$", "^[a-z]+$", "[0-9]", "^(a|b)*$", "é"])


def schemas_of(inner: some.SearchStrategy[Any]) -> some.SearchStrategy[Any]:
    several = some.lists(inner, min_size=1, max_size=3)
    return some.fixed_dictionaries(
        {},
        optional={
            "type": TYPES | some.lists(TYPES, min_size=1, max_size=3, unique=True),
            "enum": some.lists(VALUES, min_size=1, max_size=3),
            "const": VALUES,
            "required": some.lists(NAMES, max_size=2, unique=True),
            "dependentRequired": some.dictionaries(NAMES, some.lists(NAMES, max_size=1)),
            "properties": some.dictionaries(NAMES, inner, max_size=2),
            "patternProperties": some.dictionaries(PATTERNS, inner, max_size=2),
            "additionalProperties": inner,
            "propertyNames": inner,
            "prefixItems": several,
            "items": inner,
            "uniqueItems": some.booleans(),
            "pattern": PATTERNS,
            "multipleOf": some.sampled_from([1, 2, 0.5, 0.25]),
            "minimum": NUMBERS,
            "maximum": NUMBERS,
            "exclusiveMinimum": NUMBERS,
            "exclusiveMaximum": NUMBERS,
            "minLength": SIZES,
            "maxLength": SIZES,
            "minItems": SIZES,
            "maxItems": SIZES,
            "minProperties": SIZES,
            "maxProperties": SIZES,
            "allOf": several,
            "anyOf": several,
            "oneOf": several,
            "not": inner,
            "if": inner,
            "then": inner,
            "else": inner,
            "$ref": some.sampled_from(["#/$defs/a", "#/$defs/b"]),
        },
    )


LEAVES = some.booleans() | TYPES.map(lambda name: {"type": name})
SCHEMAS = some.recursive(LEAVES, schemas_of, max_leaves=6)


@given(SCHEMAS, LEAVES, LEAVES, VALUES)
def test_verdicts_match_jsonschema(schema: Any, first: Any, second: Any, value: Any) -> None:
    if isinstance(schema, dict):
        schema = {**schema, "$defs": {"a": first, "b": second}}
    expected = jsonschema.Draft202012Validator(schema).is_valid(value)
    assert (SchemaValidator(schema).find_violation(value) is None) == expected


@given(SCHEMAS, LEAVES, LEAVES, VALUES)
def test_valid_schema_with_a_flaw_has_no_value(
    schema: Any, first: Any, second: Any, value: Any
) -> None:
    if isinstance(schema, dict):
        schema = {**schema, "$defs": {"a": first, "b": second}}
    jsonschema.Draft202012Validator.check_schema(schema)
    if find_flaw(schema) is not None:
        assert not jsonschema.Draft202012Validator(schema).is_valid(value)


KEYWORDS = [
    *("type", "properties", "items", "allOf", "not", "$ref", "enum", "pattern", "minimum"),
    *("multipleOf", "required", "patternProperties", "if", "a", "#"),
]
NONSENSE = some.recursive(
    SCALARS | some.floats() | some.text(max_size=3),
    lambda inner: (
        some.lists(inner, max_size=3)
        | some.dictionaries(some.sampled_from(KEYWORDS) | some.text(max_size=3), inner, max_size=4)
    ),
    max_leaves=12,
)


def refusal(schema: Any, arguments: dict[str, Any]) -> str:
    """Return the error that a model reads about its arguments, or an empty text."""
    try:
        ArgumentSchema("mine", schema).validate(arguments)
    except ToolError as exc:
        return str(exc)
    return ""


# The validator rejects these before it reads the schema.
UNUSABLE = {
    *("infinity", "not a number", "number of 10,000 digits", "deep list", "very long list"),
    "doubling object",
}


@pytest.mark.parametrize("schema_name", HOSTILE_SCHEMAS)
def test_hostile_schema_is_read_in_bounded_time(schema_name: str) -> None:
    for name, arguments in HOSTILE_ARGUMENTS.items():
        if name in UNUSABLE and schema_name not in ("deep tree", "wide enum"):
            continue
        began_at = time.process_time()
        sentence = refusal(HOSTILE_SCHEMAS[schema_name], arguments)
        assert time.process_time() - began_at < 1.5, name
        assert len(sentence.encode()) < 10_000, name


@pytest.mark.parametrize("schema", COSTLY_SCHEMAS.values(), ids=COSTLY_SCHEMAS)
def test_costly_schema_is_abandoned(schema: dict[str, Any]) -> None:
    with pytest.raises(SchemaTooComplex):
        SchemaValidator(schema).find_violation({"a": 1})


@given(NONSENSE, VALUES | some.floats() | some.text(max_size=5))
def test_invalid_schema_never_crashes(schema: Any, value: Any) -> None:
    inside = {"type": "object", "properties": {"a": schema}, "x": schema}
    refusal(inside, {"a": value}).encode()
    refusal(schema if isinstance(schema, dict) else inside, {"a": value}).encode()


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        # Unchecked keywords cause no rejection where a schema negates or counts them.
        ({"not": {"$ref": "http://127.0.0.1:9/x"}}, 1),
        ({"not": {"pattern": "(?=a)a"}}, "b"),
        ({"oneOf": [{"format": "date"}, {"format": "time"}]}, "x"),
        ({"if": {"contains": {"const": 1}}, "then": False, "else": False}, [2]),
        ({"additionalProperties": False, "patternProperties": {"(?=a)": {}}}, {"b": 1}),
    ],
)
def test_unchecked_keyword_has_no_effect(schema: Any, value: Any) -> None:
    assert SchemaValidator(schema).find_violation(value) is None


@pytest.mark.parametrize(
    ("keywords", "value", "sentence"),
    [
        ({"minimum": 3}, 2, "mine: a must be at least 3, found 2."),
        ({"maxLength": 3}, "four", 'mine: a must have at most 3 characters, found "four".'),
        ({"enum": ["x", 2]}, "y", 'mine: a must be one of "x", 2, found "y".'),
        ({"pattern": "^x"}, "y", 'mine: a must match the pattern ^x, found "y".'),
        (
            {"anyOf": [{"type": "integer"}, {"type": "null"}]},
            "y",
            'mine: a must be of type integer or null, found string "y".',
        ),
        (
            {"anyOf": [{"type": "string"}, {"properties": {"b": {"const": 1}}, "type": "object"}]},
            {"b": 2},
            "mine: a.b must be 1, found 2.",
        ),
        ({}, float("inf"), "mine: a must be a finite number, found Infinity."),
    ],
)
def test_error_names_path_rule_and_value(
    keywords: dict[str, Any], value: Any, sentence: str
) -> None:
    check = ArgumentSchema("mine", {"type": "object", "properties": {"a": keywords}})
    with pytest.raises(ToolError) as refused:
        check.validate({"a": value})
    assert str(refused.value) == sentence
