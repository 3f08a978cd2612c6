"""Focused files of a conversation: files that a person pointed at or the model read.

If they take too much of the window, the least recently used files are evicted. As in
`token_budget`, evictions depend only on the messages up to a request: nothing is stored, and
between two evictions each request continues the previous one.
"""

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache, partial
from pathlib import Path

from agent.context.repeated_reads import parse_reading
from agent.i18n import plural
from agent.prompts import load_prompt, render_prompt
from agent.providers.token_estimate import estimate, estimate_all, estimate_text
from agent.records import frozen
from agent.text.visible import escape_line
from agent.tools.registry import ToolRegistry
from agent.types import Context, Message, Part, Text, ToolCall

# Share of the limit after an eviction, so that not every request evicts files.
_KEEP = 0.6
# Shorter content takes little more room than its replacement line.
_MIN_TOKENS = 150

_MAX_NAMES = 8
_NAME_CHARS = 40
_DEFINITION = re.compile(
    r"^ {0,4}(?:(?:export|default|pub(?:\(crate\))?|public|private|static|abstract|async) +)*"
    r"(?:(?:class|def|fn|func|function|interface|struct|enum|trait|type|module) +"
    r"(?P<name>[A-Za-z_]\w*)|#{1,3} (?P<heading>\S.*))"
)


@frozen
class FocusedFile:
    """File in a conversation.

    `message` is the number of the newest message that showed or edited it, starting at 1. If
    `is_evicted`, the model sees only a line about it.
    """

    path: str
    tokens: int
    message: int
    is_evicted: bool


@frozen
class FocusedMessages:
    """Messages of a request with their files, most recently used first.

    `newly_evicted` is the number of files that this request evicts.
    """

    messages: Sequence[Message]
    files: Sequence[FocusedFile] = ()
    newly_evicted: int = 0


@frozen
class FileFocus:
    """File focus of an agent that works in `folder` with the tools of `toolbox`."""

    toolbox: ToolRegistry
    folder: Path

    def path_read(self, call: ToolCall) -> str | None:
        """Return the normalized path that a call reads, or None for a call of another tool."""
        traits = self.toolbox.traits(call.name)
        return next(iter(self._paths(call)), None) if traits.shows_file else None

    def fit(self, messages: Sequence[Message], most: int) -> FocusedMessages:
        """Return the messages of a valid conversation as a request shows them.

        Their files may take `most` tokens.
        """
        if estimate_all(messages) <= most:
            return FocusedMessages(messages)
        return self.replay(messages, most)

    def replay(self, messages: Sequence[Message], most: int) -> FocusedMessages:
        """Like `fit`, but with the list of files even if nothing is evicted."""
        return _Replay(self, messages, most).fit()

    def paths_edited(self, call: ToolCall) -> Sequence[str]:
        """Return the normalized paths that a call edits."""
        return self._paths(call) if self.toolbox.traits(call.name).kind == "edit" else ()

    def _paths(self, call: ToolCall) -> Sequence[str]:
        return [self.normal(path) for path in self.toolbox.paths(call)]

    def normal(self, path: str) -> str:
        return os.path.normpath(os.path.join(self.folder, path))


def describe_eviction(count: int) -> str:
    """Return the notice for the person."""
    return plural(count, "Context full, {n} file evicted", "Context full, {n} files evicted")


@dataclass(slots=True)
class _File:
    """Usage of a file; `places` maps messages that show it to the tokens that they would save."""

    last_use: int = 0
    tokens: int = 0
    shown_tokens: int = 0
    places: dict[int, int] = field(default_factory=dict)
    is_evicted: bool = False


class _Replay:
    """Replay of the requests of a conversation from the first."""

    def __init__(self, focus: FileFocus, messages: Sequence[Message], most: int) -> None:
        self._focus, self._messages, self._most = focus, messages, most
        self._files: dict[str, _File] = {}
        self._evicted: dict[int, set[str]] = {}
        self._newly_evicted = 0
        self._calls: dict[str, ToolCall] = {}

    def fit(self) -> FocusedMessages:
        begin, last = 0, len(self._messages) - 1
        for at, message in enumerate(self._messages):
            self._take(at, message)
            # A request is sent before each reply and after the last message.
            if at == last or self._messages[at + 1].role == "assistant":
                self._newly_evicted = self._evict(begin)
                begin = at + 1
        remaining = list(self._messages)
        for at, paths in self._evicted.items():
            remaining[at] = _without(remaining[at], paths, self._focus)
        files = sorted(self._files.items(), key=lambda item: -item[1].last_use)
        return FocusedMessages(
            remaining if self._evicted else self._messages,
            tuple(
                FocusedFile(path, view.tokens, view.last_use + 1, view.is_evicted)
                for path, view in files
            ),
            self._newly_evicted,
        )

    def _take(self, at: int, message: Message) -> None:
        if message.role == "assistant":
            # Ids are unique within a reply only: some vendors reuse them in the next one.
            self._calls = {call.id: call for call in message.tool_calls}
        for path, tokens in self._files_in(message):
            file = self._files.setdefault(path, _File())
            file.last_use, file.is_evicted = at, False
            file.tokens += tokens
            if tokens >= _MIN_TOKENS:
                file.places[at] = file.places.get(at, 0) + tokens
                file.shown_tokens += tokens

    def _files_in(self, message: Message) -> Iterator[tuple[str, int]]:
        """Yield the files that a message shows or edited, with their tokens."""
        if message.role == "user":
            for part in message.content:
                if isinstance(part, Context) and (pointed := _pointed_at(part.text)):
                    yield self._focus.normal(pointed), estimate_text(part.text)
        elif message.role == "tool" and not message.is_error:
            call = self._calls.get(message.tool_call_id or "")
            if call is None:
                return
            if (path := self._focus.path_read(call)) is not None:
                is_text = all(isinstance(part, Text) for part in message.content)
                yield path, estimate(message) if is_text else 0
                return
            for path in self._focus.paths_edited(call):
                if path in self._files:
                    yield path, 0

    def _evict(self, begin: int) -> int:
        """Evict files if necessary, except those shown since the previous request.

        The model has not seen these yet. Return the number of evicted files.
        """
        total = sum(file.shown_tokens for file in self._files.values())
        if total <= self._most:
            return 0
        count = 0
        for path, file in sorted(self._files.items(), key=lambda item: item[1].last_use):
            if total <= self._most * _KEEP:
                break
            if file.last_use >= begin or not file.places:
                continue
            for at in file.places:
                self._evicted.setdefault(at, set()).add(path)
            total -= file.shown_tokens
            file.places, file.shown_tokens, file.tokens, file.is_evicted = {}, 0, 0, True
            count += 1
        return count


def _without(message: Message, paths: set[str], focus: FileFocus) -> Message:
    """Return the message with each of the files replaced by a line; a result shows one file."""
    if message.role == "tool":
        (path,) = paths
        return replace(message, content=tuple(map(partial(_short_result, path), message.content)))
    parts: list[Part] = []
    for part in message.content:
        pointed = _pointed_at(part.text) if isinstance(part, Context) else None
        if isinstance(part, Context) and pointed and focus.normal(pointed) in paths:
            part = replace(part, text=_line(pointed, part.text.splitlines()[1:]))
        parts.append(part)
    return replace(message, content=tuple(parts))


def _short_result(path: str, part: Part) -> Part:
    return Text(_short_reading(path, part.text)) if isinstance(part, Text) else part


# The same texts occur in each request.
@lru_cache(maxsize=1_024)
def _short_reading(path: str, text: str) -> str:
    reading = parse_reading(text)
    if not reading.lines:
        return text
    line = _line(path, list(reading.lines.values()))
    # Text after the lines, such as folder instructions and change notices, is not part of the file.
    return f"{line}\n{reading.rest}".rstrip("\n")


def _line(path: str, lines: Sequence[str]) -> str:
    """Return the replacement line of a file: its length and first definitions."""
    matches = filter(None, map(_DEFINITION.match, lines))
    names = dict.fromkeys(escape_line((m["name"] or m["heading"])[:_NAME_CHARS]) for m in matches)
    listed = ", ".join([*list(names)[:_MAX_NAMES], *(["…"] if len(names) > _MAX_NAMES else [])])
    return render_prompt(
        "evicted",
        lines=len(lines),
        path=escape_line(path),
        names=f" ({listed})" if listed else "",
    )


@cache
def _pointing() -> re.Pattern[str]:
    """Return the pattern for the beginning of a message part that shows a file."""
    before, _, after = load_prompt("project_file").partition("$path")
    after = after.partition("$text")[0]
    return re.compile(f"{re.escape(before)}([^\n]+?){re.escape(after)}")


def _pointed_at(text: str) -> str | None:
    match = _pointing().match(text)
    return match[1] if match is not None else None
