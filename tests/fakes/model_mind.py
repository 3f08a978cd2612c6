"""How a stand-in model makes up its mind: a reply is a function of the request, nothing else."""

import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from tests.fakes.model_script import Call, ReplyScript

Mind = Callable[[Mapping[str, Any]], ReplyScript]
JOB = re.compile(r"\bjob (\d+)( tool| edit| run)?( slow)?\b")
# Of a command that would last.
RUN_S = 0.3
# Kore ends a user message with its moment: "[Monday 2026-01-05 09:00 UTC, ...]".
MOMENT = re.compile(r"(\n\n\[[A-Z][a-z]+ \d{4}-\d\d-\d\d [^\n]*\])+\Z")
# In front of that it names what came with the message, a line each.
_ATTACHED = re.compile(r"\n\n\[[a-z][^\n]*\](\n\[[^\n]*\])*\Z")


def person_text(message: Mapping[str, Any]) -> str:
    """What the person said: without the moment and files, and of several text parts the first."""
    content = message.get("content") or ""
    if not isinstance(content, str):
        content = next((part["text"] for part in content if part.get("type") == "text"), "")
    return _ATTACHED.sub("", MOMENT.sub("", content))


def echo(body: Mapping[str, Any]) -> ReplyScript:
    """Say the last user message again, after "echo: "."""
    texts = [person_text(message) for message in body["messages"] if message["role"] == "user"]
    return ReplyScript(text=f"echo: {texts[-1] if texts else ''}")


def always(reply: ReplyScript) -> Mind:
    return lambda body: reply


def worker(
    effects: Path, *, tool: Literal["exec", "append_file"] = "exec", lasting: str = "sleep 600."
) -> Mind:
    """Do the jobs that people ask for, for proofs that count effects.

    `job N` is answered with `done N`. `job N tool` first asks for a call that appends a line N:
    `exec` to the file `effects`, or `append_file` to the file N in the folder `effects`; `job N
    edit` puts that line before the line `here` of the file N, by `edit_file`; it is answered
    once the result is there. `job N run` runs the command `lasting`, with N behind it, until its
    time is over, which is soon. `job N slow` streams its answer for over a second. The jobs are
    those in user messages since the model's last answer; several are done together, one line
    each. A message without a job is echoed.
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
        asked = {call["id"] for message in recent for call in message.get("tool_calls") or ()}
        calls = tuple(effect(n, kind) for n, kind, _ in jobs if kind and f"job-{n}" not in asked)
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
