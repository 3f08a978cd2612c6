"""The events' page and schema tell what the program prints."""

import json
from dataclasses import fields
from pathlib import Path
from typing import Any, get_args

import fastjsonschema
import pytest

from gateway.service import WatchEvent
from tests.gateway.cli.kore import kore
from tests.house.event_schema import schema
from tests.house.pages import DOCS, page, quoted, rows


def validator() -> Any:
    return fastjsonschema.compile(json.loads((DOCS / "events.schema.json").read_text("utf-8")))


def test_the_schema_is_the_one_of_the_types() -> None:
    written = json.loads((DOCS / "events.schema.json").read_text("utf-8"))
    assert written == schema(), "run `make schema`"


def test_the_page_tells_every_event_and_field() -> None:
    head, _, *told = rows(page("events"))
    assert head[0] == "`type`"
    fields_of = {cls.type: {f.name for f in fields(cls)} for cls in get_args(WatchEvent)}
    assert {row[0].strip("`"): quoted(row[1]) for row in told} == fields_of


@pytest.mark.parametrize(
    "words",
    [
        ("hello",),
        ('!tool write_file {"path": "a.txt", "content": "a"}',),
        ('!tool exec {"command": "rm -rf /"}',),
        ("hello", "--max-iter", "1"),
        ("hello", "--model", "openai/none"),
    ],
)
def test_what_a_run_prints_is_as_described(tmp_path: Path, words: tuple[str, ...]) -> None:
    check = validator()
    model = () if "--model" in words else ("--model", "offline/echo")
    ran = kore(
        "agent", "-m", *words, *model, "--output-format", "stream-json", home=tmp_path / "kore"
    )
    lines = [json.loads(line) for line in ran.stdout.splitlines()]
    assert lines[-1]["type"] == "delivered"
    for line in lines:
        check(line)


def test_a_run_tells_what_the_model_was_not_shown_of_a_result_and_where_it_is(
    tmp_path: Path,
) -> None:
    check = validator()
    words = '!tool exec {"command": "seq 1 20000"}'
    ran = kore(
        *("agent", "--cwd", str(tmp_path), "-m", words, "--model", "offline/echo"),
        *("--output-format", "stream-json"),
        home=tmp_path / "kore",
    )
    lines = [json.loads(line) for line in ran.stdout.splitlines()]
    for line in lines:
        check(line)
    assert lines[0]["type"] == "session_created"
    (result,) = (line for line in lines if line["type"] == "tool_result")
    whole = Path(result["file"]).read_bytes()
    assert whole.startswith(b"1\n2\n")
    assert whole.endswith(b"20000\n")
    assert 0 < len(whole) - result["cut_bytes"] <= 10_000


def test_the_schema_refuses_what_is_no_event() -> None:
    check = validator()
    for line in (
        {"type": "text_delta"},
        {"type": "text_delta", "text": 1},
        {"type": "no_such", "text": ""},
        {"type": "state", "state": "dreaming"},
    ):
        with pytest.raises(fastjsonschema.JsonSchemaException):
            check(line)
