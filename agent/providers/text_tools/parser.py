"""Streaming parser for tool calls in the text of a model.

<tool name='read_file'>notes.txt</tool>
<tool name="exec">{"command": "ls"}</tool>
<tool name="write_file"><path>a.txt</path><content>hello</content></tool>

The form that many models have learned, regardless of the prompt:

<tool_call>{"name": "exec", "arguments": {"command": "ls"}}</tool_call>
"""

import json
import re

from agent.records import frozen

_CLOSING = "</tool>"
_OPENING = re.compile(
    r"""<tool\s[^<>]*?\bname\s*=\s*(?:"([^"<>]*)"|'([^'<>]*)'|([^\s"'<>/]+))[^<>]*?(/?)>"""
)
_LEARNT, _LEARNT_CLOSING = "<tool_call>", "</tool_call>"
_RESULT = "<tool_result"
_MAX_OPENING_CHARS = 200
_STRING_MARKS = re.compile(r'["\\]|</tool(?:_call)?>')


@frozen
class ParsedCall:
    """Call as written; `whole` is False if its end is missing."""

    name: str
    body: str
    whole: bool = True


class TextToolParser:
    """Parser that separates calls from text, however the text is chunked.

    A result that the model invents for its own call is dropped, with everything after it.
    """

    def __init__(self) -> None:
        self._pending = ""
        self._name: str | None = None
        self._closing = _CLOSING
        self._called = False
        self._over = False
        # Scan position in a body, and whether it is inside a JSON string.
        self._scanned_to = 0
        self._quoted = False
        self._json: bool | None = None

    def feed(self, text: str) -> list[str | ParsedCall]:
        """Return the text to show and the calls that are certain by now, in order."""
        self._pending += text
        pieces: list[str | ParsedCall] = []
        while not self._over:
            step = self._text() if self._name is None else self._body()
            if step is None:
                break
            if step != "":
                pieces.append(step)
        return pieces

    def end(self, *, cut: bool = False) -> list[str | ParsedCall]:
        """Return the remaining pieces at the end; `cut` means that the reply was cut off."""
        if self._over:
            return []
        if self._name is not None:
            # An unclosed quote may have hidden the end, so use the first closing tag.
            body, closing, rest = self._pending.partition(self._closing)
            unclosed_call = _parse_call(self._name, body, whole=False)
            last = TextToolParser()
            last._called = True
            last._json = False
            return [unclosed_call, *(last.feed(rest) + last._text_rest(cut) if closing else [])]
        return self._text_rest(cut)

    def _text_rest(self, cut: bool) -> list[str | ParsedCall]:
        pending = self._pending
        if self._name is not None:
            return [_parse_call(self._name, pending, whole=False)]
        # The pending text begins like a call; a short one may also be plain text.
        is_opening = (
            cut or pending.startswith("<tool") or (self._called and pending.startswith("</"))
        )
        text = "" if is_opening or (self._called and not pending.strip()) else pending
        return [text] if text else []

    def _text(self) -> str | ParsedCall | None:
        """Return the next text that is certain; None when more is needed."""
        if self._called:
            # Do not show whitespace between calls and after the last call.
            self._pending = self._pending.lstrip()
        text, mark, _ = self._pending.partition("<")
        if text:
            self._pending = self._pending[len(text) :]
            self._called = False
            return text
        return self._at_mark() if mark else None

    def _at_mark(self) -> str | None:
        """Handle text that begins with `<`: a call, the beginning of a call, or plain text."""
        pending = self._pending
        if pending.startswith(_RESULT):
            self._over = True
            return ""
        opening = _OPENING.match(pending, 0, _MAX_OPENING_CHARS)
        if opening is not None:
            name = next(group for group in opening.groups()[:3] if group is not None)
            rest = pending[opening.end() :]
            return self._open(name, _CLOSING, _CLOSING + rest if opening[4] else rest)
        if pending.startswith(_LEARNT):
            return self._open("", _LEARNT_CLOSING, pending.removeprefix(_LEARNT))
        if self._called and pending.startswith((_CLOSING, _LEARNT_CLOSING)):
            # Closed twice, or with the tag of the other form.
            self._pending = pending.partition(">")[2]
            return ""
        if _may_begin(pending, called=self._called):
            return None
        self._pending, self._called = pending[1:], False
        return "<"

    def _open(self, name: str, closing: str, rest: str) -> str:
        self._name, self._closing, self._pending = name, closing, rest
        self._scanned_to, self._quoted, self._json = 0, False, None
        return ""

    def _body(self) -> ParsedCall | None:
        """Return the call once its end has arrived."""
        if self._json is None and (start := self._pending.lstrip()):
            self._json = start.startswith("{")
        end = self._end_of_json() if self._json else self._pending.find(self._closing)
        if end < 0:
            return None
        assert self._name is not None
        call = _parse_call(self._name, self._pending[:end])
        self._pending = self._pending[end + len(self._closing) :]
        self._name, self._called = None, True
        return call

    def _end_of_json(self) -> int:
        """Return the position of the closing tag outside all strings; -1 if not found yet."""
        while mark := _STRING_MARKS.search(self._pending, self._scanned_to):
            if mark[0] == self._closing and not self._quoted:
                return mark.start()
            if mark[0] == "\\" and mark.end() == len(self._pending):
                self._scanned_to = mark.start()
                return -1
            if mark[0] == '"':
                self._quoted = not self._quoted
            # A backslash inside a string escapes the next character.
            skip = mark[0] == "\\" and self._quoted
            self._scanned_to = mark.end() + 1 if skip else mark.start() + 1
        self._scanned_to = max(self._scanned_to, len(self._pending) - len(self._closing) + 1)
        return -1


def _parse_call(name: str, body: str, *, whole: bool = True) -> ParsedCall:
    """Return the call; without a name, take the name from its body."""
    if name:
        return ParsedCall(name, body, whole)
    try:
        data = json.loads(body)
    except (ValueError, RecursionError):
        return ParsedCall("", body, whole=False)
    data = data if isinstance(data, dict) else {}
    arguments = data.get("arguments", data.get("parameters", {}))
    if not isinstance(arguments, str):
        arguments = json.dumps(arguments, ensure_ascii=False)
    return ParsedCall(str(data.get("name", "")), arguments)


def _may_begin(text: str, *, called: bool) -> bool:
    """Return whether more text could complete a tag.

    The tag may open a call or a result, or close the last call a second time.
    """
    ends = (_CLOSING, _LEARNT_CLOSING) if called else ()
    if any(mark.startswith(text) for mark in (_RESULT, _LEARNT, *ends)):
        return True
    if not text.startswith("<tool"):
        return False
    return text[5:6].isspace() and ">" not in text and len(text) < _MAX_OPENING_CHARS
