"""Updates for an editor about the events of a turn."""

import json
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import acp
from acp.schema import (
    AgentMessageChunk,
    AgentPlanUpdate,
    AgentThoughtChunk,
    ContentToolCallContent,
    FileEditToolCallContent,
    ToolCallLocation,
    ToolCallProgress,
    ToolCallStart,
    ToolKind,
)

from agent import events
from agent import types as tools
from agent.text.visible import escape_for_approval, escape_invisible
from agent.turn.tool_catalog import started_event
from agent.types import ToolCall
from gateway.cli.acp.questions import question_content
from gateway.core.markdown import code_block
from gateway.core.records import Delivered, WatchEvent
from gateway.presenter.blocks import Block, call_block, note_block, step_block
from gateway.presenter.stored import text_changes

Update = AgentMessageChunk | AgentThoughtChunk | AgentPlanUpdate | ToolCallStart | ToolCallProgress
Content = ContentToolCallContent | FileEditToolCallContent

# Kinds of tools that editors do not know.
_OTHER_KINDS: dict[str, ToolKind] = {"plan": "think", "ask": "other", "delegate": "other"}
_MAX_RESULT_CHARS = 10_000
# An update with output replaces the previous one: only the end is sent, at limited intervals.
_MAX_OUTPUT_CHARS = 4_000
_OUTPUT_INTERVAL_S = 0.5


class SentText:
    """Tracker of the text of a reply that the editor has received.

    A reply restarts when its stream fails or the owner of the data is lost; then only the missing
    part is sent. If the new reply differs, all of it is sent below the first.
    """

    def __init__(self) -> None:
        self._sent = ""
        # Text of a restarted reply that the editor has, and the new text so far, which is withheld
        # while it only repeats.
        self._before = ""
        self._repeated = ""

    def begin_again(self) -> None:
        """Restart the reply: the next text is its beginning."""
        if not self._before:
            # Stored answers are stripped of surrounding space.
            self._before, self._sent = self._sent.lstrip(), ""
        self._repeated = ""

    def take(self, text: str) -> str:
        """Return the part of the next text that has to be sent."""
        if not self._before:
            self._sent += text
            return text
        self._repeated = (self._repeated + text).lstrip()
        if self._before.startswith(self._repeated):
            return ""
        before, self._sent = self._before, self._repeated
        self._before = self._repeated = ""
        if self._sent.startswith(before):
            return self._sent.removeprefix(before)
        return f"\n\n{self._sent}"

    def end_reply(self) -> str:
        """End the reply and return the text to send.

        This is the new text, if it is shorter than the text that the editor has. The next text
        belongs to another reply.
        """
        repeated, before = self._repeated.rstrip(), self._before.rstrip()
        self._sent = self._before = self._repeated = ""
        return f"\n\n{repeated}" if repeated and repeated != before else ""


class TurnUpdates:
    """Converter of the events of a prompt in `folder` to updates.

    `streamed` is true once the model has sent text; `sent` prevents duplicate text. `uses` counts
    the calls of the conversation by id: some vendors reuse ids in the next reply, and an editor
    must not treat these as one call.
    """

    def __init__(self, folder: Path, uses: Counter[str], sent: SentText) -> None:
        self._folder = folder
        self._uses = uses
        self._open: dict[str, str] = {}
        self._calls: dict[str, events.ToolStart] = {}
        # Calls that the model is still writing.
        self._pieces: dict[str, tuple[str, str]] = {}
        self._outputs: dict[str, str] = {}
        self._told_at: dict[str, float] = {}
        self._sent = sent
        self.streamed = False
        # Calls that have not ended in the editor, and the call of each question.
        self._unended: dict[str, None] = {}
        self._questions: dict[str, str] = {}

    def of(self, event: WatchEvent) -> Iterator[Update]:
        match event:
            case events.TextDelta(text=text):
                self.streamed = True
                yield from self._words(self._sent.take(text))
            case events.ThinkingDelta(text=text):
                yield acp.update_agent_thought_text(text)
            case events.ToolCallDelta(id=call_id, name=name, partial_json=piece):
                id_ = self._id_of(call_id)
                before = self._pieces.get(id_, ("", ""))
                self._pieces[id_] = (name or before[0], before[1] + piece)
            case events.ToolStart():
                yield from self._words(self._sent.end_reply())
                yield from self._started(event)
            case events.ToolOutput(id=call_id, text=text):
                yield from self._output(self._id_of(call_id), text)
            case events.ToolResulted():
                yield self._resulted(event)
            case Delivered() | events.Error():
                pass  # The answer contains the reason of a failure.
            case events.FromAgent():
                yield from self._note(step_block(event))
            case _:
                if isinstance(event, events.Retry):
                    self._sent.begin_again()
                yield from self._note(note_block(event))

    def _note(self, block: Block | None) -> Iterator[Update]:
        if block is not None:
            yield acp.update_agent_thought_text(f"\n{block.marked_text}\n")

    def _words(self, text: str) -> Iterator[Update]:
        if text:
            yield acp.update_agent_message_text(text)

    def question(self, approval: events.ApprovalAsked) -> ToolCallStart:
        """Return the call that needs approval; it starts under the same id once it is allowed."""
        candidates = [id_ for id_ in self._pieces if self._is_it(id_, approval)]
        call = candidates[0] if candidates else f"approval-{approval.number}"
        request = approval.request
        self._calls[call] = started_event(ToolCall(call, request.tool, dict(request.arguments), ""))
        self._unended[call] = None
        self._questions[approval.nonce] = call
        return acp.start_tool_call(
            call,
            approval.view.title,
            kind=_kind(self._calls[call].kind),
            status="pending",
            content=question_content(approval),
            locations=self._locations(request.arguments),
            raw_input=_escaped(request.arguments),
        )

    def answered(self, answer: events.ApprovalAnswered) -> Iterator[Update]:
        """End a call that the editor knows only from its question, such as a sub-agent's."""
        call = self._questions.pop(answer.nonce, None)
        if call in self._unended and call not in self._pieces:
            yield self._ended(call, is_error=answer.answer == "deny")

    def end(self) -> Iterator[Update]:
        """End all open calls, because the turn is over."""
        for call in list(self._unended):
            yield self._ended(call, is_error=True)

    def _ended(self, call: str, *, is_error: bool) -> ToolCallProgress:
        self._unended.pop(call, None)
        return acp.update_tool_call(call, status="failed" if is_error else "completed")

    def _id_of(self, call: str) -> str:
        """Return the editor's id for a call without a result."""
        if call not in self._open:
            self._uses[call] += 1
            used = self._uses[call]
            self._open[call] = call if used == 1 else f"{call}-{used}"
        return self._open[call]

    def _is_it(self, id_: str, approval: events.ApprovalAsked) -> bool:
        name, raw = self._pieces[id_]
        try:
            return name == approval.request.tool and json.loads(raw) == approval.request.arguments
        except ValueError:
            return False

    def _started(self, event: events.ToolStart) -> Iterator[Update]:
        if event.kind == "plan":
            yield _plan(event.arguments)
        id_ = self._id_of(event.id)
        self._pieces.pop(id_, None)
        is_known = id_ in self._calls
        self._unended[id_] = None
        self._calls[id_] = event
        if is_known:
            yield acp.update_tool_call(id_, title=call_block(event).heading, status="in_progress")
        else:
            yield acp.start_tool_call(
                id_,
                call_block(event).heading,
                kind=_kind(event.kind),
                status="in_progress",
                locations=self._locations(event.arguments),
                raw_input=dict(event.arguments),
            )

    def _locations(self, arguments: Mapping[str, Any]) -> list[ToolCallLocation] | None:
        path, line = arguments.get("path"), arguments.get("line_start", arguments.get("line"))
        if not isinstance(path, str) or not path:
            return None
        is_line = isinstance(line, int) and not isinstance(line, bool) and line > 0
        return [ToolCallLocation(path=self._absolute(path), line=line if is_line else None)]

    def _absolute(self, path: str) -> str:
        return str((self._folder / Path(path).expanduser()).absolute())

    def _output(self, id_: str, text: str) -> Iterator[Update]:
        self._outputs[id_] = (self._outputs.get(id_, "") + text)[-_MAX_OUTPUT_CHARS:]
        now = time.monotonic()
        if now - self._told_at.get(id_, 0.0) >= _OUTPUT_INTERVAL_S:
            self._told_at[id_] = now
            content = [_text_content(self._outputs[id_])]
            yield acp.update_tool_call(id_, status="in_progress", content=content)

    def _resulted(self, event: events.ToolResulted) -> ToolCallProgress:
        id_ = self._id_of(event.id)
        started = self._calls.get(id_) or events.ToolStart(id_, event.name, {})
        block = call_block(started, event)
        content: list[Content] = []
        if not event.is_error and (edit := self._edit(started)) is not None:
            content.append(edit)
        elif block.diff:
            content.append(_diff_text(block.diff))
        if block.text and not (content and block.diff):
            content.append(_text_content(block.text))
        self._outputs.pop(id_, None)
        self._unended.pop(id_, None)
        self._open.pop(event.id, None)
        return acp.update_tool_call(
            id_, status="failed" if event.is_error else "completed", content=content
        )

    def _edit(self, started: events.ToolStart) -> FileEditToolCallContent | None:
        """Return a change for a side-by-side view, if the arguments describe it."""
        match text_changes(started.name, started.arguments):
            case (change,) if change.old != "":
                return acp.tool_diff_content(self._absolute(change.path), change.new, change.old)
        return None


def _kind(kind: tools.ToolKind) -> ToolKind:
    return _OTHER_KINDS.get(kind) or cast(ToolKind, kind)


def _escaped(value: Any) -> Any:
    """Return the arguments of a call that needs approval, with every character visible."""
    if isinstance(value, Mapping):
        return {escape_for_approval(str(key)): _escaped(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_escaped(item) for item in value]
    return escape_for_approval(value) if isinstance(value, str) else value


def _plan(arguments: Mapping[str, Any]) -> AgentPlanUpdate:
    items = arguments.get("items")
    entries = [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []
    return acp.update_plan(
        acp.plan_entry(str(entry.get("content", "")), status=_status(entry.get("status")))
        for entry in entries
    )


def _status(value: Any) -> Any:
    return value if value in ("pending", "in_progress", "completed") else "pending"


def _diff_text(diff: str) -> ContentToolCallContent:
    return _text_content(diff, "diff")


def _text_content(text: str, language: str = "") -> ContentToolCallContent:
    """Return text as a code block: rendered markdown would load pictures from strangers."""
    short = text if len(text) <= _MAX_RESULT_CHARS else f"{text[:_MAX_RESULT_CHARS]}\n…"
    return acp.tool_content(acp.text_block(code_block(escape_invisible(short), language)))
