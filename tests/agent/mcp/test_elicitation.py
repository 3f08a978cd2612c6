"""Questions of servers: what a person is asked, and what the server gets."""

import asyncio
import time
from contextlib import suppress
from typing import Any

import pytest

types = pytest.importorskip("mcp.types", reason="needs the extra mcp")

from agent.elicitation import Elicitation, ElicitationAnswer, FormField  # noqa: E402 - skipped
from agent.mcp.elicitation import LiveCall, LiveCalls, elicit  # noqa: E402 - skipped
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


async def test_a_form_is_filled_in_with_defaults_and_nothing_unasked() -> None:
    answer = ElicitationAnswer("accept", {"name": "Ada", "password": "not asked for"})
    question, result = await question_and_result(form({**SCHEMA}), answer)
    assert [(one.name, one.is_required) for one in question.fields] == [
        ("name", True),
        ("age", False),
    ]
    # Nothing invisible changes what a person reads.
    assert "\u202e" not in question.fields[0].title
    assert "\u200b" not in question.message
    assert (result.action, result.content) == ("accept", {"name": "Ada", "age": 30})


@pytest.mark.parametrize("action", ["decline", "cancel"])
async def test_a_refusal_says_nothing_else(action: Any) -> None:
    _, result = await question_and_result(
        form({**SCHEMA}), ElicitationAnswer(action, {"name": "Ada"})
    )
    assert (result.action, result.content) == (action, None)


async def test_a_page_is_named_and_its_answer_carries_nothing() -> None:
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


@pytest.mark.parametrize("field", [*FIELDS, *HOSTILE_SCHEMAS.values()])
@pytest.mark.parametrize("required", [["a"], 5, {"a": 1}, [[], {}]])
async def test_hostile_form_is_asked_or_left_out(field: dict[str, Any], required: Any) -> None:
    began_at = time.process_time()
    schema = {**field, "required": required, "properties": {"a": field}}
    question, result = await question_and_result(form(schema), ElicitationAnswer("accept", {}))
    (asked,) = question.fields
    for words in ("", "1", "nan", "1e999", "9" * 5_000, "a" * 3_000, "a,b", "\ud800", "2026-11-11"):
        with suppress(ValueError):
            asked.label_of(asked.read(words))
    assert len(asked.title) + len(asked.description) + len(asked.kind) < 1_000
    assert asked.is_secret in (True, False)
    assert result.action == "accept"
    assert time.process_time() - began_at < 1


@pytest.mark.parametrize("schema", [{"properties": 5}, {"properties": ["a"]}, {"required": None}])
async def test_form_without_properties_asks_for_nothing(schema: dict[str, Any]) -> None:
    question, _ = await question_and_result(form(schema), ElicitationAnswer("decline"))
    assert question.fields == ()


async def test_the_time_that_a_person_thinks_is_not_the_servers() -> None:
    calls = LiveCalls(None)
    async with asyncio.timeout(100) as deadline:

        async def person(question: Elicitation) -> ElicitationAnswer:
            assert deadline.when() is None
            return ElicitationAnswer("accept")

        async with calls.during(person, deadline):
            assert await calls.ask(Elicitation("s", "?")) == ElicitationAnswer("accept")
            assert deadline.when() is not None


async def test_of_two_calls_at_a_time_no_other_person_is_names() -> None:
    calls, both = LiveCalls(None), asyncio.Barrier(3)
    names: list[str] = []

    async def work(name: str) -> None:
        async def person(question: Elicitation) -> ElicitationAnswer:
            names.append(name)
            return ElicitationAnswer("accept")

        async with asyncio.timeout(100) as deadline, calls.during(person, deadline):
            await both.wait()
            # Within the call it is plain whose it is.
            await calls.ask(Elicitation("s", "?"))
            await both.wait()

    async with asyncio.TaskGroup() as group:
        for name in ("a", "b"):
            group.create_task(work(name))
        await both.wait()
        assert await calls.ask(Elicitation("s", "?")) == ElicitationAnswer("decline")
        await both.wait()
    assert sorted(names) == ["a", "b"]


async def test_a_call_that_ends_ends_its_questions() -> None:
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


async def test_a_server_asks_no_more_than_ten_times_in_one_call() -> None:
    calls = LiveCalls(None)

    async def person(question: Elicitation) -> ElicitationAnswer:
        return ElicitationAnswer("accept")

    async with asyncio.timeout(100) as deadline, calls.during(person, deadline):
        said = [(await calls.ask(Elicitation("s", "?"))).action for _ in range(11)]
    assert said == ["accept"] * 10 + ["decline"]


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
def test_words_of_a_person_become_values(schema: dict[str, Any], text: str, value: object) -> None:
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
def test_words_that_do_not_fit_are_refused(schema: dict[str, Any], text: str) -> None:
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
def test_what_looks_secret(name: str, schema: dict[str, Any], is_secret: bool) -> None:
    assert FormField(name, schema).is_secret is is_secret


async def test_who_has_declined_twice_is_asked_no_more_in_that_call() -> None:
    asked: list[str] = []

    async def refuse(question: Elicitation) -> ElicitationAnswer:
        asked.append(question.message)
        return ElicitationAnswer("decline" if len(asked) == 1 else "cancel")

    live = LiveCall(refuse, asyncio.timeout(None))
    answers = [await live.ask(Elicitation("s", str(n))) for n in range(5)]
    assert asked == ["0", "1"]
    assert [one.action for one in answers] == ["decline", "cancel", "decline", "decline", "decline"]
