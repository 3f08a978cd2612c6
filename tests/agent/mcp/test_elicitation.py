"""Elicitation by MCP servers, from the form to the answer."""

import asyncio
import time
from contextlib import suppress
from typing import Any

import pytest

types = pytest.importorskip("mcp.types", reason="needs the extra mcp")

from agent.mcp.elicitation import LiveCall, LiveCalls, elicit  # noqa: E402 - skipped
from agent.tools.elicitation import Elicitation, ElicitationAnswer, FormField  # noqa: E402 - skipped
from tests.agent.tools.hostile_schemas import HOSTILE_SCHEMAS  # noqa: E402 - skipped

SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "title": "Your na\u202eme"},
        "age": {"type": "integer", "default": 30},
        "wrong": "no schema",
    },
    "required": ["name"],
}


async def question_and_result(params: Any, answer: ElicitationAnswer) -> tuple[Elicitation, Any]:
    questions: list[Elicitation] = []

    async def person(question: Elicitation) -> ElicitationAnswer:
        questions.append(question)
        return answer

    result = await elicit("shop", params, person)
    (question,) = questions
    return question, result


def form(schema: dict[str, Any]) -> Any:
    return types.ElicitRequestFormParams(message="Who?\u200b", requested_schema=schema)


async def test_form_is_completed_with_defaults_and_without_unknown_fields() -> None:
    answer = ElicitationAnswer("accept", {"name": "Ada", "password": "not asked for"})
    question, result = await question_and_result(form({**SCHEMA}), answer)
    assert [(form_field.name, form_field.is_required) for form_field in question.fields] == [
        ("name", True),
        ("age", False),
    ]
    # Invisible characters are escaped.
    assert "\u202e" not in question.fields[0].title
    assert "\u200b" not in question.message
    assert (result.action, result.content) == ("accept", {"name": "Ada", "age": 30})


@pytest.mark.parametrize("action", ["decline", "cancel"])
async def test_refusal_has_no_content(action: Any) -> None:
    _, result = await question_and_result(
        form({**SCHEMA}), ElicitationAnswer(action, {"name": "Ada"})
    )
    assert (result.action, result.content) == (action, None)


async def test_answer_to_a_url_request_has_no_content() -> None:
    params = types.ElicitRequestURLParams(
        message="Pay", url="https://example.org/pay", elicitation_id="1"
    )
    question, result = await question_and_result(
        params, ElicitationAnswer("accept", {"name": "Ada"})
    )
    assert (question.url, question.fields) == ("https://example.org/pay", ())
    assert (result.action, result.content) == ("accept", None)


FIELDS: list[dict[str, Any]] = [
    {"title": 5, "description": [1]},
    {"type": ["a"], "enum": 5},
    {"enum": [[1], {"a": 1}, float("inf")]},
    {"oneOf": [{"const": float("nan"), "title": {}}]},
    {"type": "array", "items": 5, "minItems": "x"},
    {"type": "integer", "minimum": float("inf"), "maximum": 10**4000},
    {"type": "string", "format": {}, "minLength": float("inf"), "maxLength": float("nan")},
    {"type": "string", "pattern": "^(a|a)*b$", "default": "\ud800"},
    {"title": "a" * 10**7, "description": "p " * 10**6},
    {"$ref": "#", "anyOf": {"const": 1}},
]


HOSTILE_WORDS = (
    *("", "1", "nan", "1e999", "9" * 5_000, "a" * 3_000, "a,b", "\ud800", "2026-11-11"),
)


@pytest.mark.parametrize("field", [*FIELDS, *HOSTILE_SCHEMAS.values()])
async def test_hostile_field_is_usable_or_left_out(field: dict[str, Any]) -> None:
    required_values: list[Any] = [["a"], 5, {"a": 1}, [[], {}]]
    for required in required_values:
        began_at = time.process_time()
        schema = {**field, "required": required, "properties": {"a": field}}
        question, result = await question_and_result(form(schema), ElicitationAnswer("accept", {}))
        (form_field,) = question.fields
        for words in HOSTILE_WORDS:
            with suppress(ValueError):
                form_field.label_of(form_field.read(words))
        assert len(form_field.title) + len(form_field.description) + len(form_field.kind) < 1_000
        assert form_field.is_secret in (True, False)
        assert result.action == "accept"
        assert time.process_time() - began_at < 1, required


@pytest.mark.parametrize("schema", [{"properties": 5}, {"properties": ["a"]}, {"required": None}])
async def test_form_without_properties_has_no_fields(schema: dict[str, Any]) -> None:
    question, _ = await question_and_result(form(schema), ElicitationAnswer("decline"))
    assert question.fields == ()


async def test_deadline_is_suspended_while_a_person_answers() -> None:
    calls = LiveCalls(None)
    async with asyncio.timeout(100) as deadline:

        async def person(question: Elicitation) -> ElicitationAnswer:
            assert deadline.when() is None
            return ElicitationAnswer("accept")

        async with calls.during(person, deadline):
            assert await calls.ask(Elicitation("s", "?")) == ElicitationAnswer("accept")
            assert deadline.when() is not None


async def test_ambiguous_question_of_concurrent_calls_is_declined() -> None:
    calls, both = LiveCalls(None), asyncio.Barrier(3)
    names: list[str] = []

    async def work(name: str) -> None:
        async def person(question: Elicitation) -> ElicitationAnswer:
            names.append(name)
            return ElicitationAnswer("accept")

        async with asyncio.timeout(100) as deadline, calls.during(person, deadline):
            await both.wait()
            # Inside a call, the question belongs to that call.
            await calls.ask(Elicitation("s", "?"))
            await both.wait()

    async with asyncio.TaskGroup() as group:
        for name in ("a", "b"):
            group.create_task(work(name))
        await both.wait()
        assert await calls.ask(Elicitation("s", "?")) == ElicitationAnswer("decline")
        await both.wait()
    assert sorted(names) == ["a", "b"]


async def test_end_of_a_call_cancels_its_questions() -> None:
    calls, begun = LiveCalls(None), asyncio.Event()

    async def person(question: Elicitation) -> ElicitationAnswer:
        begun.set()
        await asyncio.Event().wait()
        raise AssertionError

    async with asyncio.timeout(100) as deadline:
        async with calls.during(person, deadline):
            asking = asyncio.create_task(calls.ask(Elicitation("s", "?")))
            await begun.wait()
        assert await asking == ElicitationAnswer("cancel")


async def test_questions_per_call_are_limited() -> None:
    calls = LiveCalls(None)

    async def person(question: Elicitation) -> ElicitationAnswer:
        return ElicitationAnswer("accept")

    async with asyncio.timeout(100) as deadline, calls.during(person, deadline):
        actions = [(await calls.ask(Elicitation("s", "?"))).action for _ in range(11)]
    assert actions == ["accept"] * 10 + ["decline"]


@pytest.mark.parametrize(
    ("schema", "text", "value"),
    [
        ({"type": "boolean"}, "yes", True),
        ({"type": "boolean"}, "2", False),
        ({"type": "string", "enum": ["3", "1"]}, "1", "1"),
        ({"type": "string", "enum": ["a", "b"], "enumNames": ["Ann", "Ben"]}, "ben", "b"),
        ({"enum": ["b", "a"], "enumNames": ["a", "b"]}, "b", "a"),
        ({"type": "string", "oneOf": [{"const": "x", "title": "An x"}]}, "an x", "x"),
        ({"type": "array", "items": {"type": "string", "enum": ["a", "b"]}}, "2, a,b", ["b", "a"]),
        ({"type": "number"}, " 1.5 ", 1.5),
        ({"type": "string", "format": "email"}, "a@b.c", "a@b.c"),
    ],
)
def test_text_becomes_a_value(schema: dict[str, Any], text: str, value: object) -> None:
    assert FormField("f", schema).read(text) == value


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        ({"type": "boolean"}, "perhaps"),
        ({"type": "integer"}, "1.5"),
        ({"type": "number"}, "nan"),
        ({"type": "integer", "maximum": 5}, "6"),
        ({"type": "string", "enum": ["a"]}, "2"),
        ({"type": "string", "minLength": 3}, "ab"),
        ({"type": "string", "format": "date"}, "soon"),
        ({"type": "array", "items": {"enum": ["a", "b"]}, "maxItems": 1}, "1,2"),
    ],
)
def test_invalid_text_is_rejected(schema: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        FormField("f", schema).read(text)


@pytest.mark.parametrize(
    ("name", "schema", "is_secret"),
    [
        ("userPassword", {}, True),
        ("api_key", {}, True),
        ("value", {"description": "The token of your account"}, True),
        ("v", {"title": "密码"}, True),
        ("pin", {}, True),
        ("spinning", {}, False),
        ("city", {}, False),
        ("secret", {"type": "boolean"}, False),
    ],
)
def test_secret_fields_are_recognized(name: str, schema: dict[str, Any], is_secret: bool) -> None:
    assert FormField(name, schema).is_secret is is_secret


async def test_second_refusal_ends_the_questions_of_a_call() -> None:
    messages: list[str] = []

    async def refuse(question: Elicitation) -> ElicitationAnswer:
        messages.append(question.message)
        return ElicitationAnswer("decline" if len(messages) == 1 else "cancel")

    live = LiveCall(refuse, asyncio.timeout(None))
    answers = [await live.ask(Elicitation("s", str(n))) for n in range(5)]
    assert messages == ["0", "1"]
    assert [answer.action for answer in answers] == [
        "decline",
        "cancel",
        "decline",
        "decline",
        "decline",
    ]
