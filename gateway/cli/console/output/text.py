"""Plain-text descriptions of turn events, safe for any terminal."""

import json
import re
from collections.abc import Mapping
from typing import Any

from agent import events
from agent.errors import KoreError
from agent.i18n import plural, t
from agent.text.visible import escape_invisible
from agent.tools.traits import is_fixed, label_values
from agent.types import ToolKind

_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])")
_DETAIL_KEYS = ("command", "path", "file_path", "url", "query", "pattern", "text", "id")
# Kinds of tools whose results are counted instead of shown.
_COUNTED: frozenset[ToolKind] = frozenset({"read", "search", "fetch"})
_SHOWN_LINES = 3
_LIST_LINES = 30
_LINE_CHARS = 200


def without_ansi(text: str) -> str:
    """Return program output without colours and cursor movements."""
    return escape_invisible(_ANSI.sub("", text))


def last_printed(line: str) -> str:
    """Return the final text of a line, without overwritten parts."""
    return without_ansi(line.rstrip("\r").rpartition("\r")[2])


def call_line(name: str, arguments: Mapping[str, Any], label: str = "") -> str:
    """Return a tool call in one line: the name, and the arguments that its label names."""
    if is_fixed(label):
        return name
    detail: Any = " ".join(label_values(label, arguments).values()) or None
    if detail is None:
        detail = next((arguments[key] for key in _DETAIL_KEYS if arguments.get(key)), None)
    if detail is None and arguments:
        detail = json.dumps(dict(arguments), ensure_ascii=False, default=str)
    return escape_invisible(shorten(f"{name} {detail}" if detail is not None else name))


def started_line(started: events.ToolStart) -> str:
    """Return a line for a call that starts."""
    return call_line(started.name, started.arguments, started.label)


def outcome(result: events.ToolResulted) -> list[str]:
    """Return the result of a tool call in a few lines."""
    prints = result.kind == "execute"
    lines = _content_lines(result)
    took = f" ({seconds(result.elapsed_s)})" if result.elapsed_s >= 1 else ""
    if lines == [""]:
        return [t("nothing") + took]
    if result.kind in _COUNTED and not result.is_error and len(lines) > 1:
        return [t("{n:,} lines", n=len(lines)) + took]
    most = _LIST_LINES if result.kind == "plan" else _SHOWN_LINES
    if len(lines) > most + 1:
        rest = plural(len(lines) - most, "… {n:,} more line", "… {n:,} more lines")
        lines = [rest, *lines[-most:]] if prints else [*lines[:most], rest]
    rows = [shorten(line, joined=False) for line in lines]
    rows[-1] += took
    return rows


def leaves_out(result: events.ToolResulted) -> bool:
    """Return whether `outcome` shortens the result."""
    lines, rows = _content_lines(result), outcome(result)
    return len(lines) > len(rows) or any(len(line) > _LINE_CHARS for line in lines)


def _content_lines(result: events.ToolResulted) -> list[str]:
    clean = last_printed if result.kind == "execute" else without_ansi
    return [clean(line) for line in result.content.strip("\n").split("\n")]


def event_line(event: events.Event) -> str | None:
    """Return a line for an event outside of the answer, or None for other events."""
    match event:
        case events.Notice(text=text):
            return escape_invisible(text)
        case events.FromAgent():
            return _step(event)
        case events.Retry(reason=reason, attempt=attempt, max_attempts=most):
            return t(
                "retry {n} of {most}: {why}",
                n=attempt,
                most=most,
                why=escape_invisible(reason),
            )
        case events.Steered(text=text):
            return t("↪ heard: {text}", text=escape_invisible(shorten(text)))
        case events.Compacted(summarised=summarised) if summarised:
            return t("{n:,} older messages were summarized (/context)", n=summarised)
        case events.Compacted(dropped=0):
            return t("old tool results were shortened to save context")
        case events.Compacted(dropped=dropped):
            return t("{n} older messages were dropped from the context", n=dropped)
        case events.SessionClosed(session_id=id_):
            return t("conversation {id} was closed; your next message starts a new one", id=id_)
        case events.Evicted(reason=reason):
            return reason
        case events.Signalled(signal=signal, reason=reason):
            return escape_invisible(f"{signal}: {reason}" if reason else signal)
        case events.Error(code=code, message=message, hint=hint):
            return escape_invisible(f"{message} ({code})" + (f"\n  {hint}" if hint else ""))
        case _:
            return None


def _step(report: events.FromAgent) -> str | None:
    """Return a step of a sub-agent in one line, for screens without a live area."""
    event = report.event
    name = escape_invisible(f"{report.agent} ({report.number})")
    match event.get("type"):
        case "tool_start":
            return f"{name} ● {step_line(event)}"
        case "done":
            return t("{name} finished", name=name)
    return None


def step_line(event: Mapping[str, Any]) -> str:
    """Return a call of a sub-agent in one line, from the JSON form of its event."""
    name, label = str(event.get("name")), str(event.get("label") or "")
    return call_line(name, event.get("arguments") or {}, label)


def complaint(error: KoreError) -> str:
    """Return an error as a sentence, with the hint below it."""
    return escape_invisible(f"kore: {error}" + (f"\n      {error.hint}" if error.hint else ""))


def seconds(elapsed_s: float) -> str:
    """Format a duration: `0.4 s`, `12 s`, `3:07 min`."""
    if elapsed_s < 10:
        return f"{elapsed_s:.1f} s"
    if elapsed_s < 60:
        return f"{elapsed_s:.0f} s"
    return f"{int(elapsed_s) // 60}:{int(elapsed_s) % 60:02} min"


def shorten(text: str, *, joined: bool = True) -> str:
    """Return the text as one line of limited length."""
    line = " ".join(text.split()) if joined else text
    return line if len(line) <= _LINE_CHARS else line[: _LINE_CHARS - 1] + "…"
