"""Blocks: the texts of a turn's events, the same for every screen and chat."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from typing import Any, Literal

from agent import events
from agent.approvals import Answer
from agent.i18n import mark_for_translation, plural, t
from agent.records import frozen
from agent.text.visible import escape_for_approval, escape_invisible
from agent.tools.traits import TOOL, LabelPart, label_parts
from agent.types import ToolKind, Usage
from gateway.core.markdown import join_lines
from gateway.presenter.text import (
    MAX_LINE_CHARS,
    last_printed,
    one_line,
    seconds,
    shorten,
    without_ansi,
)

BlockKind = Literal["answer", "thought", "call", "note", "verdict", "step", "subagent"]
BlockState = Literal["running", "done", "failed", "stopped"]
Style = Literal["plain", "dim", "warning", "error"]

STOPPED = mark_for_translation("⏹ Stopped.")
_TESTS = re.compile(
    r"\b(?:pytest|unittest|tox|nox|jest|vitest|ctest|phpunit|rspec)\b"
    r"|\b(?:npm|pnpm|yarn|bun|go|cargo|make|mix|gradle|mvn|dotnet) (?:run )?(?:test|check)\b"
)
_TESTING = mark_for_translation("Running the tests: {command}")
# Arguments that best describe a call without a label.
_DETAIL_KEYS = ("command", "path", "file_path", "url", "query", "pattern", "text", "id")
# Kinds of tools whose results are counted instead of shown.
_COUNTED: frozenset[ToolKind] = frozenset({"read", "search", "fetch"})
_RESULT_LINES = 3
_MAX_LIST_LINES = 30
_THOUGHT_LINES = 8
# A longer diff is shown by its first lines.
MAX_DIFF_LINES = 60
# Shorter durations are not shown.
_MIN_ELAPSED_S = 1
_VERDICTS: dict[Answer, str] = {
    "once": mark_for_translation("allowed once"),
    "session": mark_for_translation("allowed for this session"),
    "always": mark_for_translation("always allowed (exactly this)"),
    "deny": mark_for_translation("denied"),
}


@frozen
class Block:
    """Visible part of a turn; its texts are safe for any terminal.

    - `text`: the whole text: markdown of an answer, lines of a result, a thought, a note.
    - `id`: the call of a block about a call.
    - `mark`: one character in front of the block.
    - `title`, `detail`: description of a call; `detail` adds what the title omits.
    - `lines`: the lines shown while the block is collapsed, with `omitted` lines left out after
      them, or before them if the block `shows_end`; `is_cut` if they are not the whole text.
    - `elapsed`: duration of a call or a sub-agent, '' if it is too short to be shown.
    - `diff`: a unified diff, unescaped. `file`: path of the complete result.
    - `files`: paths of the files that a call has sent to the person.
    """

    kind: BlockKind
    text: str = ""
    id: str = ""
    mark: str = ""
    style: Style = "plain"
    title: tuple[LabelPart, ...] = ()
    detail: str = ""
    lines: tuple[str, ...] = ()
    omitted: int = 0
    shows_end: bool = False
    is_cut: bool = False
    state: BlockState = "done"
    elapsed: str = ""
    tool: str = ""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    diff: str | None = None
    file: str | None = None
    files: tuple[str, ...] = ()

    @property
    def is_collapsed(self) -> bool:
        """True if a part of the block is only shown on request."""
        is_long_diff = (self.diff or "").rstrip("\n").count("\n") >= MAX_DIFF_LINES
        return self.is_cut or self.file is not None or is_long_diff

    @property
    def marked_text(self) -> str:
        """Text of a note behind its mark."""
        return f"{self.mark} {self.text}" if self.mark else self.text

    @property
    def heading(self) -> str:
        """Title and detail of a call on one line."""
        title = title_text(self.title)
        return shorten(f"{title} {self.detail}") if self.detail else title

    def shown_lines(self, hint: str = "") -> list[str]:
        """Return the lines to show while collapsed.

        `hint` follows the note that lines were omitted.
        """
        lines = list(self.lines)
        if self.omitted:
            note = more_lines(self.omitted) + hint
            lines = [note, *lines] if self.shows_end else [*lines, note]
        if self.elapsed and lines:
            lines[-1] += f" ({self.elapsed})"
        return lines


def more_lines(count: int) -> str:
    """Return the note that lines were omitted."""
    return plural(count, "… {n:,} more line", "… {n:,} more lines")


def title_text(title: Sequence[LabelPart]) -> str:
    return "".join(part.text for part in title)


def call_title(
    tool: str, arguments: Mapping[str, Any], kind: ToolKind = "other", label: str = ""
) -> tuple[LabelPart, ...]:
    """Return the description of a call; arguments in it are neither escaped nor shortened."""
    if kind == "execute" and _TESTS.search(str(arguments.get("command", ""))):
        label = _TESTING
    return label_parts(label, tool, arguments)


def call_block(
    started: events.ToolStart,
    result: events.ToolResulted | None = None,
    *,
    output: Sequence[str] = (),
    state: BlockState = "running",
) -> Block:
    """Return a call with its result; without a result, with its latest lines of output."""
    title = call_title(started.name, started.arguments, started.kind, started.label)
    is_described = all(part.argument != TOOL for part in title)
    call = Block(
        "call",
        id=started.id,
        mark="●",
        title=_fitted(title),
        detail="" if is_described else _detail(started.arguments),
        tool=started.name,
        arguments=started.arguments,
        state=state,
    )
    if result is None:
        lines = (t("stopped"),) if state == "stopped" else tuple(output)
        style: Style = "warning" if state == "stopped" else "dim"
        return replace(call, lines=lines, style=style)
    return _with_result(call, result)


def _with_result(call: Block, result: events.ToolResulted) -> Block:
    is_command = result.kind == "execute"
    clean = last_printed if is_command else without_ansi
    lines = [clean(line) for line in result.content.strip("\n").split("\n")]
    excerpt, omitted, is_counted = lines, 0, False
    if result.kind in _COUNTED and not result.is_error and len(lines) > 1:
        excerpt, is_counted = [t("{n:,} lines", n=len(lines))], True
    else:
        limit = _MAX_LIST_LINES if result.kind == "plan" else _RESULT_LINES
        if len(lines) > limit + 1:
            excerpt = lines[-limit:] if is_command else lines[:limit]
            omitted = len(lines) - limit
    if lines == [""]:
        excerpt = [t("nothing")]
    is_cut = omitted > 0 or is_counted or any(len(line) > MAX_LINE_CHARS for line in lines)
    return replace(
        call,
        state="failed" if result.is_error else "done",
        style="error" if result.is_error else "dim",
        text="\n".join(lines),
        lines=tuple(shorten(line) for line in excerpt),
        omitted=omitted,
        shows_end=is_command,
        is_cut=is_cut,
        elapsed=seconds(result.elapsed_s) if result.elapsed_s >= _MIN_ELAPSED_S else "",
        diff=result.diff,
        file=result.file,
    )


def _fitted(title: Sequence[LabelPart]) -> tuple[LabelPart, ...]:
    """Return the title in one line of limited length, escaped."""
    room = MAX_LINE_CHARS
    parts: list[LabelPart] = []
    for part in title:
        text = join_lines(part.text) if part.argument else part.text
        text = shorten(text, max(room, 1))
        room -= len(text)
        parts.append(LabelPart(escape_invisible(text), part.argument))
        if room <= 0:
            break
    return tuple(parts)


def _detail(arguments: Mapping[str, Any]) -> str:
    """Return the most descriptive argument, or all of them as JSON."""
    detail = next((arguments[key] for key in _DETAIL_KEYS if arguments.get(key)), None)
    if detail is None and arguments:
        detail = json.dumps(dict(arguments), ensure_ascii=False, default=str)
    return "" if detail is None else escape_invisible(one_line(str(detail)))


def thought_block(text: str) -> Block:
    """Return a thought of the model, shown by its first lines."""
    lines = without_ansi(text).strip().split("\n")
    omitted = max(0, len(lines) - _THOUGHT_LINES)
    return Block(
        "thought",
        "\n".join(lines),
        mark="✻",
        style="dim",
        lines=tuple(lines[:_THOUGHT_LINES]),
        omitted=omitted,
        is_cut=omitted > 0,
    )


def note_block(event: events.Event) -> Block | None:
    """Return the line about an event outside of the answer, or None for other events."""
    match event:
        case events.Notice(level="warning", text=text):
            return _note(text, "!", "warning")
        case events.Notice(text=text):
            return _note(text)
        case events.Retry(reason=reason, attempt=attempt, max_attempts=count):
            text = t("retry {n} of {most}: {why}", n=attempt, most=count, why=reason)
            return _note(f"{text}; {t('partial output discarded')}", "↻")
        case events.Steered(text=text):
            return _marked(t("↪ heard: {text}", text=one_line(text)), "dim")
        case events.Compacted(summarised=count) if count:
            return _note(t("{n:,} older messages were summarized (/context)", n=count))
        case events.Compacted(dropped=0):
            return _note(t("old tool results were shortened to save context"))
        case events.Compacted(dropped=count):
            return _note(t("{n} older messages were dropped from the context", n=count))
        case events.SessionClosed(session_id=session):
            return _note(
                t("conversation {id} was closed; your next message starts a new one", id=session)
            )
        case events.Evicted(reason=reason):
            return _note(reason)
        case events.Signalled(signal=signal, reason=reason):
            return _note(f"{signal}: {reason}" if reason else signal, "■", "warning")
        case events.Error():
            return error_block(event)
        case _:
            return None


def error_block(error: events.Error) -> Block:
    hint = f"\n  {error.hint}" if error.hint else ""
    return _note(f"{error.message} ({error.code}){hint}", "✗", "error")


def _note(text: str, mark: str = "·", style: Style = "dim") -> Block:
    return Block("note", escape_invisible(text), mark=mark, style=style)


def _marked(text: str, style: Style) -> Block:
    """Return a note from a text that begins with its mark."""
    mark, _, text = text.partition(" ")
    return _note(text, mark, style)


def stopped_block() -> Block:
    """Return the note that a person stopped the turn."""
    return _marked(t(STOPPED), "warning")


def usage_block(usage: Usage) -> Block | None:
    """Return the tokens of a turn, or None if they are unknown."""
    if not (usage.input or usage.output):
        return None
    text = t("{input:,} tokens in, {output:,} out", input=usage.input, output=usage.output)
    return Block("note", text, style="dim")


def verdict_block(event: events.ApprovalAnswered) -> Block:
    """Return the answer to an approval, or to the question of a server."""
    return Block("verdict", _verdict(event), mark="?", style="dim")


def _verdict(event: events.ApprovalAnswered) -> str:
    if event.server:
        return t("not answered") if event.answer == "deny" else t("answered")
    decision = t(_VERDICTS[event.answer])
    if event.network and event.answer in ("session", "always"):
        decision = t(
            "allowed for this session: network to {hosts}"
            if event.answer == "session"
            else "always allowed: network to {hosts}",
            hosts=", ".join(event.network),
        )
    if event.recipient is not None and event.answer in ("session", "always"):
        decision = t(
            "allowed for this session: private data for the MCP server {server}"
            if event.answer == "session"
            else "the MCP server {server} is trusted with private data",
            server=event.recipient.server,
        )
    if event.folder and event.answer in ("session", "always"):
        decision = t(
            "allowed for this session: files in {folder}"
            if event.answer == "session"
            else "always allowed: files in {folder}",
            folder=escape_for_approval(event.folder),
        )
    if event.prefix is not None:
        decision = t("always allowed: {prefix}", prefix=event.prefix)
    return f"{decision}: {escape_for_approval(event.words)}" if event.words else decision


def step_block(report: events.FromAgent) -> Block | None:
    """Return a step of a sub-agent in one line, or None for other events."""
    name = subagent_name(report)
    match report.event.get("type"):
        case "tool_start":
            return Block("step", f"{name} ● {step_heading(report.event)}", style="dim")
        case "done":
            return Block("step", t("{name} finished", name=name), style="dim")
    return None


def subagent_name(report: events.FromAgent) -> str:
    return escape_invisible(f"{report.agent} ({report.number})")


def step_heading(event: Mapping[str, Any]) -> str:
    """Return a sub-agent's call in one line, from the JSON form of its start."""
    started = events.ToolStart(
        str(event.get("id")),
        str(event.get("name")),
        event.get("arguments") or {},
        event.get("kind") or "other",
        str(event.get("label") or ""),
    )
    return call_block(started).heading
