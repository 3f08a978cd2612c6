"""Interpreter of a fixed subset of JSON Schema 2020-12 for foreign schemas.

A schema is never compiled into code, nothing is fetched, and a check is bounded in depth, steps and
processor time. A keyword outside the subset is not checked; the server of the tool decides.
docs/mcp.md lists the subset, ADR 0128 gives the reasons.
"""

import json
import math
import time
from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from typing import TYPE_CHECKING, Any, TypeGuard
from urllib.parse import unquote

from agent.records import frozen

if TYPE_CHECKING:
    from re2 import _Regexp

Place = tuple[str | int, ...]

MAX_DEPTH = 100
MAX_STEPS = 100_000
# Some steps cost more than others; 100,000 ordinary steps take a quarter of a second.
MAX_CPU_S = 0.5
# The number of bits that Python reads in decimal digits.
MAX_NUMBER_BITS = 14_000
MAX_PATTERN_CHARS = 1_000
MAX_MATCHED_CHARS = 10_000
MAX_PATTERN_MEMORY_BYTES = 1 << 20
# Bytes times instructions that RE2 processes in about the time of one step.
_MATCHING_PER_STEP = 2_000
_TEXT_PER_STEP = 1_000
_KEYWORDS_PER_STEP = 20
# Reading the clock costs as much as a step.
_STEPS_PER_CLOCK_READING = 16
_MAX_SHOWN_CHARS = 60
_MAX_SHOWN_ITEMS = 20
# Keywords without influence on the validity of a value.
_ANNOTATIONS = frozenset(
    {"$schema", "$id", "id", "$anchor", "$comment", "$defs", "definitions", "$vocabulary"}
    | {"title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly"}
)


class SchemaTooComplex(Exception):
    """The check would need more depth, steps or time than allowed."""


@frozen
class Violation:
    """First rule that a value breaks.

    `place` is the path from the root to the value; `message` is the predicate of a sentence about
    it.
    """

    place: Place
    rule: str
    message: str
    value: Any
    expected: Any = None


class SchemaValidator:
    """Validator of values against one schema, which must not change."""

    def __init__(self, schema: object) -> None:
        self.schema = schema
        # Cached results of checks: patterns, and the values of each `enum` by its identity.
        self.patterns: dict[str, _Regexp | None] = {}
        self.enums: dict[int, frozenset[str]] = {}

    def find_violation(self, value: object, part: object = None) -> Violation | None:
        """Return the first rule that the value breaks, or None; `part` is the part of the schema to
        check. Raises `SchemaTooComplex`.
        """
        try:
            return _Check(self).run(self.schema if part is None else part, value)
        except RecursionError as exc:
            raise SchemaTooComplex from exc

    def part(self, reference: str) -> object:
        """Return the part that a reference such as `#/$defs/x` names, or None."""
        return _Check(self).resolve(reference)


class _Check:
    """One check of one value."""

    def __init__(self, validator: SchemaValidator) -> None:
        self._root = validator.schema
        self._patterns, self._enums = validator.patterns, validator.enums
        self._left_steps = MAX_STEPS
        self._end_s = time.thread_time() + MAX_CPU_S
        self._clock_is_due_at = MAX_STEPS - _STEPS_PER_CLOCK_READING
        self._depth = 0
        # Number of skipped parts of the schema, which might have rejected the value.
        self._skipped = 0

    def run(self, schema: object, value: object) -> Violation | None:
        return self._refuse_unusable(value, ()) or self._evaluate(schema, value, ())

    def _spend(self, steps: int) -> None:
        self._left_steps -= steps
        if self._left_steps > self._clock_is_due_at:
            return
        if self._left_steps < 0 or time.thread_time() > self._end_s:
            raise SchemaTooComplex
        self._clock_is_due_at = self._left_steps - _STEPS_PER_CLOCK_READING

    def _refuse_unusable(self, value: object, place: Place) -> Violation | None:
        """Reject values that JSON cannot express, in all parts that the schema checks."""
        self._spend(1)
        if len(place) > MAX_DEPTH:
            raise SchemaTooComplex
        if isinstance(value, float) and not math.isfinite(value):
            return Violation(place, "number", "must be a finite number", value)
        if isinstance(value, int) and value.bit_length() > MAX_NUMBER_BITS:
            return Violation(place, "number", "has too many digits", value)
        if isinstance(value, dict):
            inner = ((item, (*place, str(key))) for key, item in value.items())
        elif isinstance(value, list):
            inner = ((item, (*place, n)) for n, item in enumerate(value))
        else:
            return None
        return _first(self._refuse_unusable(item, deeper) for item, deeper in inner)

    def _evaluate(self, schema: object, value: object, place: Place) -> Violation | None:
        self._spend(1)
        if schema is False:
            return Violation(place, "false", "must be left out", value)
        if not isinstance(schema, Mapping):
            self._skipped += schema is not True
            return None
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise SchemaTooComplex
        try:
            self._spend(len(schema) // _KEYWORDS_PER_STEP)
            self._skipped += not (schema.keys() <= _KNOWN)
            return _first(
                rule(self, schema[keyword], value, place, schema)
                for keyword, rule in _RULES.items()
                if keyword in schema
            )
        finally:
            self._depth -= 1

    def _settled(self, schema: object, value: object, place: Place) -> bool | None:
        """Return whether the value fits, or None if part of the schema was skipped."""
        before = self._skipped
        violation = self._evaluate(schema, value, place)
        return None if self._skipped > before else violation is None

    def _matches(self, pattern: object, text: str) -> bool | None:
        """Return whether the pattern is found in the text, or None if that is not checked."""
        regexp = self._compiled(pattern) if isinstance(pattern, str) else None
        if regexp is None or len(text) > MAX_MATCHED_CHARS:
            self._skipped += 1
            return None
        data = text.encode("utf-8", "replace")
        self._spend(1 + regexp.programsize * len(data) // _MATCHING_PER_STEP)
        return regexp.search(data) is not None

    def _compiled(self, pattern: str) -> "_Regexp | None":
        if pattern not in self._patterns:
            self._spend(len(pattern))
            self._patterns[pattern] = _compile(pattern)
        return self._patterns[pattern]

    def _canonical(self, value: object) -> str:
        """Return the same text for equal JSON values: 1 equals 1.0, but 1 differs from true."""
        self._spend(1)
        if isinstance(value, Mapping):
            pairs = sorted((str(key), self._canonical(item)) for key, item in value.items())
            return f"{{{','.join(f'{json.dumps(key)}:{item}' for key, item in pairs)}}}"
        if isinstance(value, list | tuple):
            return f"[{','.join(map(self._canonical, value))}]"
        if _is_number(value):
            is_whole = isinstance(value, int) or value.is_integer()
            return hex(int(value)) if is_whole else repr(value)
        if isinstance(value, str):
            self._spend(len(value) // _TEXT_PER_STEP)
        return json.dumps(value, default=str)

    def resolve(self, reference: str) -> object:
        """Return the part of this schema that a reference names, or None."""
        node: object = self._root
        if reference != "#" and not reference.startswith("#/"):
            return None
        for part in unquote(reference[1:]).split("/")[1:]:
            self._spend(1)
            key = part.replace("~1", "/").replace("~0", "~")
            if isinstance(node, Mapping):
                node = node.get(key)
            elif isinstance(node, list) and key.isascii() and key.isdecimal():
                node = node[int(key[:9])] if int(key[:9]) < len(node) else None
            else:
                return None
        return node

    # Rules: each takes the operand of its keyword, the value, the value's place and the whole
    # schema.

    def reference(self, operand: Any, value: Any, place: Place, schema: Any) -> Violation | None:
        target = self.resolve(operand) if isinstance(operand, str) else None
        return self._evaluate(target, value, place)

    def type(self, operand: Any, value: Any, place: Place, schema: Any) -> Violation | None:
        names = operand if isinstance(operand, list) else [operand]
        types = [name for name in names if isinstance(name, str) and name in _TYPES]
        if len(types) < len(names):
            self._skipped += 1
            return None
        if any(_TYPES[name](value) for name in types):
            return None
        text = " or ".join(types)
        return Violation(place, "type", f"must be of type {text}", value, tuple(types))

    def enum(self, operand: Any, value: Any, place: Place, schema: Any) -> Violation | None:
        if not isinstance(operand, list):
            self._skipped += 1
            return None
        if (values := self._enums.get(id(operand))) is None:
            values = self._enums[id(operand)] = frozenset(map(self._canonical, operand))
        if self._canonical(value) in values:
            return None
        return Violation(place, "enum", f"must be one of {_listed(operand)}", value, operand)

    def const(self, operand: Any, value: Any, place: Place, schema: Any) -> Violation | None:
        if self._canonical(value) == self._canonical(operand):
            return None
        return Violation(place, "const", f"must be {short_json(operand)}", value, operand)

    def required(self, operand: Any, value: Any, place: Place, schema: Any) -> Violation | None:
        if not isinstance(operand, list) or not isinstance(value, dict):
            return None
        self._spend(len(operand))
        missing = [name for name in operand if isinstance(name, str) and name not in value]
        if not missing:
            return None
        return Violation(place, "required", f"needs {_cut(missing[0])!r}", value, missing[0])

    def dependent(self, operand: Any, value: Any, place: Place, schema: Any) -> Violation | None:
        if not isinstance(operand, Mapping) or not isinstance(value, dict):
            return None
        return _first(
            self.required(names, value, place, schema)
            for name, names in operand.items()
            if name in value
        )

    def properties(self, operand: Any, value: Any, place: Place, schema: Any) -> Violation | None:
        if not isinstance(operand, Mapping) or not isinstance(value, dict):
            return None
        self._spend(len(value))
        return _first(
            self._evaluate(operand[name], item, (*place, name))
            for name, item in value.items()
            if name in operand
        )

    def patterned(self, operand: Any, value: Any, place: Place, schema: Any) -> Violation | None:
        if not isinstance(operand, Mapping) or not isinstance(value, dict):
            return None
        return _first(
            self._evaluate(inner, item, (*place, name))
            for pattern, inner in operand.items()
            for name, item in value.items()
            if self._matches(pattern, name)
        )

    def additional(self, operand: Any, value: Any, place: Place, schema: Any) -> Violation | None:
        if operand is True or not isinstance(value, dict):
            return None
        properties, patterns = schema.get("properties"), schema.get("patternProperties")
        names = properties if isinstance(properties, Mapping) else {}
        patterns = patterns if isinstance(patterns, Mapping) else {}
        for name, item in value.items():
            # A pattern that is not checked might match the name.
            if name in names or any(
                self._matches(pattern, name) is not False for pattern in patterns
            ):
                continue
            if operand is False:
                return Violation(place, "unknown", f"has no property {_cut(name)!r}", value, name)
            if violation := self._evaluate(operand, item, (*place, name)):
                return violation
        return None

    def names(self, operand: Any, value: Any, place: Place, schema: Any) -> Violation | None:
        if not isinstance(value, dict):
            return None
        return _first(self._evaluate(operand, name, (*place, name)) for name in value)

    def prefix_items(self, operand: Any, value: Any, place: Place, schema: Any) -> Violation | None:
        if not isinstance(operand, list) or not isinstance(value, list):
            return None
        pairs = enumerate(zip(operand, value, strict=False))
        return _first(self._evaluate(inner, item, (*place, n)) for n, (inner, item) in pairs)

    def items(self, operand: Any, value: Any, place: Place, schema: Any) -> Violation | None:
        if isinstance(operand, list):
            # Before 2020-12 a list meant the same as `prefixItems` today.
            return self.prefix_items(operand, value, place, schema)
        if not isinstance(value, list):
            return None
        prefix = schema.get("prefixItems")
        start = len(prefix) if isinstance(prefix, list) else 0
        items = enumerate(value[start:], start)
        return _first(self._evaluate(operand, item, (*place, n)) for n, item in items)

    def unique_items(self, operand: Any, value: Any, place: Place, schema: Any) -> Violation | None:
        if operand is not True or not isinstance(value, list):
            return None
        if len(set(map(self._canonical, value))) == len(value):
            return None
        return Violation(place, "uniqueItems", "must not contain an item twice", value)

    def pattern(self, operand: Any, value: Any, place: Place, schema: Any) -> Violation | None:
        if not isinstance(value, str) or self._matches(operand, value) is not False:
            return None
        return Violation(place, "pattern", f"must match the pattern {_cut(operand)}", value)

    def multiple(self, operand: Any, value: Any, place: Place, schema: Any) -> Violation | None:
        if not _is_number(value) or not _is_bound(operand) or operand <= 0:
            return None
        if _exact(value) % _exact(operand) == 0:
            return None
        return Violation(place, "multipleOf", f"must be a multiple of {operand}", value, operand)

    def all_of(self, operand: Any, value: Any, place: Place, schema: Any) -> Violation | None:
        if not isinstance(operand, list):
            self._skipped += 1
            return None
        return _first(self._evaluate(inner, value, place) for inner in operand)

    def any_of(self, operand: Any, value: Any, place: Place, schema: Any) -> Violation | None:
        if not isinstance(operand, list) or not operand:
            self._skipped += 1
            return None
        violations = []
        for inner in operand:
            violation = self._evaluate(inner, value, place)
            if violation is None:
                return None
            violations.append(violation)
        return _closest(violations)

    def one_of(self, operand: Any, value: Any, place: Place, schema: Any) -> Violation | None:
        before = self._skipped
        if violation := self.any_of(operand, value, place, schema):
            return violation
        if self._skipped > before:
            return None
        verdicts = [self._settled(inner, value, place) for inner in operand]
        if verdicts.count(True) <= 1 or None in verdicts:
            return None
        return Violation(place, "oneOf", "must match exactly one of the alternatives", value)

    def negation(self, operand: Any, value: Any, place: Place, schema: Any) -> Violation | None:
        if self._settled(operand, value, place) is not True:
            return None
        return Violation(place, "not", f"must not fit {short_json(operand)}", value)

    def condition(self, operand: Any, value: Any, place: Place, schema: Any) -> Violation | None:
        verdict = self._settled(operand, value, place)
        if verdict is None:
            return None
        return self._evaluate(schema.get("then" if verdict else "else", True), value, place)


Rule = Callable[[_Check, Any, Any, Place, Any], Violation | None]


def _bound(
    applies: Callable[[Any], bool],
    size: Callable[[Any], Any],
    breaks: Callable[[Any, Any], bool],
    message: str,
) -> Rule:
    """Return a rule that compares the size of a value with a number."""

    def rule(_: _Check, operand: Any, value: Any, place: Place, __: Any) -> Violation | None:
        if not applies(value) or not _is_bound(operand) or not breaks(size(value), operand):
            return None
        return Violation(place, "bound", message.format(operand), value, operand)

    return rule


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_bound(operand: object) -> TypeGuard[float]:
    if not _is_number(operand):
        return False
    if isinstance(operand, int):
        return operand.bit_length() <= MAX_NUMBER_BITS
    return math.isfinite(operand)


def _exact(number: float) -> "Fraction":
    """Return the exact decimal value of a number: 0.1 is a tenth."""
    return Fraction(number) if isinstance(number, int) else Fraction(repr(number))


def _is(kind: type) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, kind)


def _itself(value: Any) -> Any:
    return value


_TYPES: Mapping[str, Callable[[Any], bool]] = {
    "null": lambda value: value is None,
    "boolean": _is(bool),
    "string": _is(str),
    "array": _is(list),
    "object": _is(dict),
    "number": _is_number,
    "integer": lambda value: _is_number(value) and (isinstance(value, int) or value.is_integer()),
}
# In the order of evaluation.
_RULES: Mapping[str, Rule] = {
    "type": _Check.type,
    "required": _Check.required,
    "$ref": _Check.reference,
    "enum": _Check.enum,
    "const": _Check.const,
    "dependentRequired": _Check.dependent,
    "properties": _Check.properties,
    "patternProperties": _Check.patterned,
    "additionalProperties": _Check.additional,
    "propertyNames": _Check.names,
    "prefixItems": _Check.prefix_items,
    "items": _Check.items,
    "uniqueItems": _Check.unique_items,
    "pattern": _Check.pattern,
    "multipleOf": _Check.multiple,
    "allOf": _Check.all_of,
    "anyOf": _Check.any_of,
    "oneOf": _Check.one_of,
    "not": _Check.negation,
    "if": _Check.condition,
    "minimum": _bound(_is_number, _itself, lambda a, b: a < b, "must be at least {}"),
    "maximum": _bound(_is_number, _itself, lambda a, b: a > b, "must be at most {}"),
    "exclusiveMinimum": _bound(_is_number, _itself, lambda a, b: a <= b, "must be more than {}"),
    "exclusiveMaximum": _bound(_is_number, _itself, lambda a, b: a >= b, "must be less than {}"),
    "minLength": _bound(_is(str), len, lambda a, b: a < b, "must have at least {} characters"),
    "maxLength": _bound(_is(str), len, lambda a, b: a > b, "must have at most {} characters"),
    "minItems": _bound(_is(list), len, lambda a, b: a < b, "must have at least {} items"),
    "maxItems": _bound(_is(list), len, lambda a, b: a > b, "must have at most {} items"),
    "minProperties": _bound(_is(dict), len, lambda a, b: a < b, "must have at least {} properties"),
    "maxProperties": _bound(_is(dict), len, lambda a, b: a > b, "must have at most {} properties"),
}
_KNOWN = _ANNOTATIONS.union(_RULES, ("then", "else"))


def _first(violations: Iterator[Violation | None]) -> Violation | None:
    return next((violation for violation in violations if violation is not None), None)


def _closest(violations: list[Violation]) -> Violation:
    """Return the most useful violation for a value that fits no alternative.

    This is the deepest violation in the value, or all the types that the value might have.
    """
    deepest = max(violations, key=lambda violation: len(violation.place))
    if deepest.rule != "type" or any(violation.place != deepest.place for violation in violations):
        return deepest
    types: dict[str, None] = {}
    for violation in violations:
        if violation.rule != "type":
            return violation
        types |= dict.fromkeys(violation.expected)
    message = f"must be of type {' or '.join(types)}"
    return Violation(deepest.place, "type", message, deepest.value, tuple(types))


def _compile(pattern: str) -> "_Regexp | None":
    """Return a pattern compiled by RE2; None if RE2 cannot read it or it would be too large."""
    if len(pattern) > MAX_PATTERN_CHARS:
        return None
    import re2

    options = re2.Options()
    options.log_errors = False
    options.max_mem = MAX_PATTERN_MEMORY_BYTES
    try:
        return re2.compile(pattern.encode(), options)
    except (re2.error, UnicodeEncodeError):
        return None


def short_json(value: object) -> str:
    """Return a value as JSON in a few characters, for a sentence."""
    try:
        text = json.dumps(value, ensure_ascii=False, default=str)
    except (ValueError, RecursionError):
        return "a value that cannot be shown"
    return _cut(text)


def _listed(values: list[Any]) -> str:
    text = ", ".join(map(short_json, values[:_MAX_SHOWN_ITEMS]))
    more = len(values) - _MAX_SHOWN_ITEMS
    return f"{text} and {more} more" if more > 0 else text


def _cut(text: str) -> str:
    line = text.encode("utf-8", "backslashreplace").decode()
    return line if len(line) <= _MAX_SHOWN_CHARS else f"{line[:_MAX_SHOWN_CHARS]}…"
