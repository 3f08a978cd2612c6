"""The events' page and schema describe the program's output."""

import asyncio
import json
import shutil
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import Any, get_args

import pytest
from jsonschema import Draft202012Validator, ValidationError

from gateway.core.event_levels import level_of_type
from gateway.core.records import WatchEvent
from tests.fakes.model import ModelServer
from tests.fakes.model_script import Call, ReplyScript, refusal
from tests.gateway.cli.kore import kore
from tests.house.event_schema import schema
from tests.house.pages import DOCS, code_spans, page, rows


def validator() -> Any:
    schema = json.loads((DOCS / "events.schema.json").read_text("utf-8"))
    return Draft202012Validator(schema).validate


def test_event_schema_is_current() -> None:
    document = json.loads((DOCS / "events.schema.json").read_text("utf-8"))
    assert document == schema(), "run `make schema`"


def test_page_documents_every_event_and_field() -> None:
    head, _, *result = rows(page("events"))
    assert head[0] == "`type`"
    fields_of = {cls.type: {f.name for f in fields(cls)} for cls in get_args(WatchEvent)}
    assert {row[0].strip("`"): code_spans(row[1]) for row in result} == fields_of
    levels = {row[0].strip("`"): row[3] for row in result}
    own = {"notice": "its `level`", "from_agent": "that of `event`"}
    assert levels == {cls.type: level_of_type(cls.type) for cls in get_args(WatchEvent)} | own


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
def test_printed_events_match_the_schema(tmp_path: Path, words: tuple[str, ...]) -> None:
    check = validator()
    model = () if "--model" in words else ("--model", "offline/echo")
    ran = kore(
        "agent", "-m", *words, *model, "--output-format", "stream-json", home=tmp_path / "kore"
    )
    lines = [json.loads(line) for line in ran.stdout.splitlines()]
    assert lines[-1]["type"] == "delivered"
    for line in lines:
        check(line)


def test_truncated_result_is_reported_with_its_file(
    tmp_path: Path,
) -> None:
    check = validator()
    words = '!tool exec {"command": "seq 1 20000"}'
    ran = kore(
        *("agent", "-y", "-m", words, "--model", "offline/echo"),
        *("--output-format", "stream-json"),
        home=tmp_path / "kore",
        environ={"KORE_SECURITY_SANDBOX": "none"},
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


@pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")
async def test_long_run_prints_only_documented_events(
    tmp_path: Path,
) -> None:
    """The model thinks, fails, changes a file, starts a sub-agent and is refused a command."""
    check = validator()
    (tmp_path / "large.txt").write_text("word " * 200_000)
    (tmp_path / "a.txt").write_text("old")
    sent = {"description": "look", "prompt": "look", "subagent_type": "explore"}
    async with ModelServer() as model:
        model.script(
            ReplyScript(reasoning="hm", tool_calls=(Call("read_file", {"path": "a.txt"}),))
        )
        model.script(refusal(500, "busy"))
        model.script(
            ReplyScript(tool_calls=(Call("exec", {"command": "echo new > a.txt; cat a.txt"}),))
        )
        model.script(ReplyScript(tool_calls=(Call("task", sent),)))
        model.script(ReplyScript(text="There is a file."))
        model.script(ReplyScript(tool_calls=(Call("exec", {"command": "rm -rf /"}),)))
        model.script(ReplyScript(text="<promise>BLOCKED:no key</promise>"))
        entry = {
            "model_name": "default",
            "model": "openai/fake",
            "api_base": model.base_url,
            "api_key": "k",
        }
        environ = {"KORE_MODEL_LIST": json.dumps([entry]), "KORE_CONTEXT_MAX_TOKENS": "32000"}
        ran = await asyncio.to_thread(
            partial(
                kore,
                *("agent", "--cwd", str(tmp_path), "-f", str(tmp_path / "large.txt")),
                *("--permission-mode", "auto", "-m", "go", "--output-format", "stream-json"),
                home=tmp_path / "kore",
                environ=environ,
            )
        )
    lines = [json.loads(line) for line in ran.stdout.splitlines()]
    for line in lines:
        check(line)
    never_here = {
        # Caused by: a message during a run; a full window; a closed conversation; a goal.
        *("steered", "compacted", "session_closed", "goal"),
        # A one-shot run has no person who could answer.
        "attention",
        # Only agents of library programs hand over a conversation.
        "agent_changed",
        # The shorter runs above print these.
        *("error", "approval_asked", "approval_answered", "notice"),
    }
    every = {cls.type for cls in get_args(WatchEvent)}
    assert {line["type"] for line in lines} >= every - never_here, ran.stderr
    assert ran.returncode == 3


def test_schema_rejects_invalid_events() -> None:
    check = validator()
    for line in (
        {"type": "text_delta"},
        {"type": "text_delta", "text": 1},
        {"type": "no_such", "text": ""},
        {"type": "state", "state": "dreaming"},
    ):
        with pytest.raises(ValidationError):
            check(line)
