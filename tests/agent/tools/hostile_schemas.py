"""Schemas and arguments that stall, crash or mislead validators."""

from typing import Any

_MUTUAL = {f"p{n}": {"$ref": f"#/properties/p{(n + 1) % 200}"} for n in range(200)}
_WEB = {
    f"p{n}": {"properties": {f"p{m}": {"$ref": f"#/properties/p{m}"} for m in range(200)}}
    for n in range(200)
}


def _tree(depth: int) -> dict[str, Any]:
    schema: dict[str, Any] = {}
    for _ in range(depth):
        schema = {"properties": {"a": schema}, "additionalProperties": False}
    return schema


def _of(**keywords: Any) -> dict[str, Any]:
    """Return the schema of an object whose property `a` has these keywords."""
    return {"type": "object", "properties": {"a": keywords}}


# Each of these has stalled, crashed or misled a validator.
HOSTILE_SCHEMAS: dict[str, dict[str, Any]] = {
    "backtracking pattern": _of(type="string", pattern="^(a|a)*b$"),
    "nested repetition": _of(type="string", pattern="^((a+)+)+$"),
    "large repetition": _of(type="string", pattern="(.{1,900})(.{1,100}){3}x"),
    "huge pattern": _of(type="string", pattern="a?" * 30_000 + "a" * 30_000),
    "Unicode pattern": _of(type="string", pattern=r"^\p{L}+$"),
    "Python pattern": _of(type="string", pattern=r"(?P<a>a)(?P=a)"),
    "pattern with a lone surrogate": _of(type="string", pattern="\ud800"),
    "pattern that is a number": _of(type="string", pattern=5),
    "name patterns": {"patternProperties": {f"^(a|a)*{n}$": {} for n in range(300)}},
    "mutual references": {"type": "object", "properties": _MUTUAL},
    "web of references": {"type": "object", "properties": _WEB},
    "reference to itself": {"$ref": "#"},
    "loop of references": {"$ref": "#/x", "x": {"$ref": "#/y"}, "y": {"$ref": "#/x"}},
    "doubling references": {
        "allOf": [{"$ref": "#/d0"}] * 2,
        **{f"d{n}": {"allOf": [{"$ref": f"#/d{n + 1}"}] * 2} for n in range(60)},
    },
    "reference to a file": _of(**{"$ref": "file:///dev/zero"}),
    "reference to nowhere": _of(**{"$ref": "#/no/such/place"}),
    "reference to a string": _of(**{"$ref": "#/type"}),
    "reference that is a list": _of(**{"$ref": ["#"]}),
    "reference with escapes": _of(**{"$ref": "#/%zz/~2/~"}),
    "infinite minimum": _of(minimum=float("inf")),
    "maximum that is not a number": _of(maximum=float("nan")),
    "minimum of 4,000 digits": _of(minimum=10**4000),
    "multiple of zero": _of(multipleOf=0),
    "multiple of almost nothing": _of(multipleOf=5e-324),
    "negative bounds": _of(minLength=-1, maxItems=-5, multipleOf=-3),
    "bounds of the wrong type": _of(minLength="a", maxLength=[], minItems={}, uniqueItems="x"),
    "deep tree": _tree(400),
    "deep negation": {"not": {"not": {"not": {"not": {"$ref": "#"}}}}},
    "wide enum": _of(enum=list(range(10_000))),
    "type of the wrong type": _of(type={"a": 1}),
    "type that is a list of lists": _of(type=[["string"], 5]),
    "unknown type": _of(type="file"),
    "required that is a number": {"type": "object", "required": 5},
    "required that holds objects": {"type": "object", "required": [{}, [], None]},
    "properties that are a list": {"type": "object", "properties": ["a", "b"]},
    "properties that are null": {"type": "object", "properties": None},
    "property that is a number": {"type": "object", "properties": {"a": 5}},
    "applicators of the wrong type": _of(allOf=5, anyOf={}, oneOf="x", items=7, prefixItems=3),
    "empty applicators": _of(allOf=[], anyOf=[], oneOf=[]),
    "names with a lone surrogate": {"type": "object", "required": ["\ud800"]},
    "draft 4": {
        "$schema": "http://json-schema.org/draft-04/schema#",
        "id": "http://127.0.0.1:9/secret#f",
        "$ref": "#/d",
        "d": {"exclusiveMinimum": True, "minimum": 0, "dependencies": {"a": 5}},
    },
    "unknown keywords": _of(unevaluatedItems=False, contains={"type": "x"}, format=[]),
}


def _fan_out(leaf: Any) -> dict[str, Any]:
    """Return a schema that reaches the leaf 22,500 times."""
    many: dict[str, Any] = {
        name: {"allOf": [{"$ref": f"#/{to}"}] * 150} for name, to in ("ab", "bc")
    }
    return {"$ref": "#/a", **many, "c": leaf}


# A validation step of these costs a hundred times as much as usual.
COSTLY_SCHEMAS: dict[str, dict[str, Any]] = {
    "long reference": _fan_out({"$ref": "#/" + "%41" * 18_000}),
    "many types": _fan_out({"type": ["null"] * 6_500 + ["object"]}),
    "many patterns": {
        "propertyNames": {"allOf": [{"pattern": rf"(\pL{{9}}){{9}}|{n}"} for n in range(1_900)]}
    },
    "long text under not": {
        "allOf": [{"anyOf": [{"$ref": "#/a"}] * 150}],
        "a": {"anyOf": [{"$ref": "#/b"}] * 240},
        "b": {"not": {"title": "\x01" * 8_000}},
    },
}

_DEEP_LIST: list[Any] = []
for _ in range(300):
    _DEEP_LIST = [_DEEP_LIST]
_DEEP_OBJECT: dict[str, Any] = {}
for _ in range(60):
    _DEEP_OBJECT = {"a": _DEEP_OBJECT, "p1": _DEEP_OBJECT}

HOSTILE_ARGUMENTS: dict[str, dict[str, Any]] = {
    "nothing": {},
    "letters": {"a": "a" * 100_000},
    "letters and another character": {"a": "a" * 3_000 + "!"},
    "null": {"a": None},
    "true": {"a": True},
    "infinity": {"a": float("inf")},
    "not a number": {"a": float("nan")},
    "number of 4,000 digits": {"a": 10**4000},
    "number of 10,000 digits": {"a": 10**10_000},
    "lone surrogate": {"a": "\ud800", "\udfff": 1},
    "zero bytes": {"a": "\0", "\0": "\0"},
    "deep list": {"a": _DEEP_LIST},
    "deep list as text": {"a": "[" * 900 + "]" * 900},
    "very deep list as text": {"a": "[" * 100_000},
    "doubling object": {"a": _DEEP_OBJECT},
    "long list": {"a": list(range(30_000))},
    "very long list": {"a": [0] * 300_000},
    "properties of the web": {f"p{n}": {f"p{m}": {} for m in range(50)} for n in range(50)},
    "long name": {"a" * 100_000: 1},
}
