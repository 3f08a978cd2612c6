"""Minds of a fake model: a reply is a pure function of the request."""

import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from tests.fakes.model_script import Call, ReplyScript

Mind = Callable[[Mapping[str, Any]], ReplyScript]
JOB = re.compile(r"\bjob (\d+)( tool| edit| run)?( slow)?\b")
# Time that the `lasting` command runs.
RUN_S = 0.3
# Kore appends a timestamp to a user message: "[Monday 2026-01-05 09:00 UTC, ...]".
MOMENT = re.compile(r"(\n\n\[[A-Z][a-z]+ \d{4}-\d\d-\d\d [^\n]*\])+\Z")
# The timestamp follows a list of the message's attachments, one per line.
_ATTACHED = re.compile(r"\n\n\[[a-z][^\n]*\](\n\[[^\n]*\])*\Z")


def person_text(message: Mapping[str, Any]) -> str:
    """Return the person's text without timestamp and files; of several text parts, the first."""
    content = message.get("content") or ""
    if not isinstance(content, str):
        content = next((part["text"] for part in content if part.get("type") == "text"), "")
    return _ATTACHED.sub("", MOMENT.sub("", content))


def echo(body: Mapping[str, Any]) -> ReplyScript:
    """Repeat the last user message after "echo: "."""
    texts = [person_text(message) for message in body["messages"] if message["role"] == "user"]
    return ReplyScript(text=f"echo: {texts[-1] if texts else ''}")


def always(reply: ReplyScript) -> Mind:
    return lambda body: reply


def worker(
    effects: Path, *, tool: Literal["exec", "append_file"] = "exec", lasting: str = "sleep 600."
) -> Mind:
    """Return a mind that does people's jobs, for tests that count effects.

    `job N` is answered with `done N`. `job N tool` first requests a call that appends a line N:
    `exec` to the file `effects`, or `append_file` to the file N in the folder `effects`. `job N
    edit` inserts that line before the line `here` of the file N, by `edit_file`. These are answered
    once the result is present. `job N run` runs the command `lasting`, followed by N, until its
    short timeout. `job N slow` streams its answer for over a second.

    It does the jobs in user messages since the model's last answer; several are done together, one
    line each. A message without a job is echoed.
    """

    def effect(n: str, kind: str) -> Call:
        if kind == " edit":
            change = {
                "path": str(effects / n),
                "old_string": "here\n",
                "new_string": f"{n}\nhere\n",
            }
            return Call("edit_file", change, f"job-{n}")
        if kind == " run":
            return Call("exec", {"command": f"{lasting}{n}", "timeout_s": RUN_S}, f"job-{n}")
        if tool == "exec":
            command = f"echo {n} >> {shlex.quote(str(effects))}"
            return Call("exec", {"command": command}, f"job-{n}")
        arguments = {"path": str(effects / n), "content": f"{n}\n"}
        return Call("append_file", arguments, f"job-{n}")

    def mind(body: Mapping[str, Any]) -> ReplyScript:
        recent = _since_last_answer(body["messages"])
        jobs = [
            job
            for message in recent
            if message["role"] == "user"
            for job in JOB.findall(person_text(message))
        ]
        if not jobs:
            return echo(body)
        ids = {call["id"] for message in recent for call in message.get("tool_calls") or ()}
        calls = tuple(effect(n, kind) for n, kind, _ in jobs if kind and f"job-{n}" not in ids)
        if calls:
            return ReplyScript(tool_calls=calls)
        text = "\n".join(f"done {n}" for n, _, _ in jobs)
        if any(slow for _, _, slow in jobs):
            return ReplyScript(text=f"I am working on it … {text}", pieces=8, chunk_delay_s=0.2)
        return ReplyScript(text=text)

    return mind


def _since_last_answer(messages: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
    for n in range(len(messages) - 1, -1, -1):
        if messages[n]["role"] == "assistant" and not messages[n].get("tool_calls"):
            return messages[n + 1 :]
    return messages
