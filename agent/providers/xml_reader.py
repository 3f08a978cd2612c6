"""Tool calls that a model writes into its text, found while the text streams.

<tool name='read_file'>notes.txt</tool>
<tool name="exec">{"command": "ls"}</tool>
<tool name="write_file"><path>a.txt</path><content>hello</content></tool>
"""

import re
from dataclasses import dataclass

_CLOSING = "</tool>"
_OPENING = re.compile(r"""<tool\s[^<>]*?\bname\s*=\s*(?:"([^"<>]*)"|'([^'<>]*)')[^<>]*?(/?)>""")
_RESULT = "<tool_result"
_LONGEST_OPENING = 200
_STRING_MARKS = re.compile(r'["\\]|</tool>')


@dataclass(frozen=True, slots=True)
class Written:
    """A call as it was written; `whole` is false when its end never came."""

    name: str
    body: str
    whole: bool = True


class XmlReader:
    """Tells calls from text, however the text is cut into pieces.

    What the model makes up as a result of its own call is dropped, and all that follows it.
    """

    def __init__(self) -> None:
        self._held = ""
        self._name: str | None = None
        self._called = False
        self._over = False
        # In a body: how far it was looked at, and whether that place is inside a JSON string.
        self._seen = 0
        self._quoted = False
        self._json: bool | None = None

    def feed(self, text: str) -> list[str | Written]:
        """Text to show and calls, in order, as far as they are certain by now."""
        self._held += text
        found: list[str | Written] = []
        while not self._over:
            step = self._text() if self._name is None else self._body()
            if step is None:
                break
            if step != "":
                found.append(step)
        return found

    def end(self) -> list[str | Written]:
        """The rest, once nothing can follow."""
        if self._over:
            return []
        if self._name is not None:
            # A quote that was never closed may have hidden the end: the first one counts then.
            body, found, rest = self._held.partition(_CLOSING)
            broken = Written(self._name, body, whole=False)
            last = XmlReader()
            last._called = True
            last._json = False
            return [broken, *(last.feed(rest) + last._text_rest() if found else [])]
        return self._text_rest()

    def _text_rest(self) -> list[str | Written]:
        held = self._held
        if self._name is not None:
            return [Written(self._name, held, whole=False)]
        begun = held.startswith("<tool") and held[5:6].isspace()
        shown = "" if begun or (self._called and not held.strip()) else held
        return [shown] if shown else []

    def _text(self) -> str | Written | None:
        """The next text that is certain; None when more must come first."""
        if self._called:
            # Blanks between calls, and behind the last one, are not worth showing.
            self._held = self._held.lstrip()
        text, mark, _ = self._held.partition("<")
        if text:
            self._held = self._held[len(text) :]
            self._called = False
            return text
        return self._at_mark() if mark else None

    def _at_mark(self) -> str | None:
        """The text begins with `<`: a call, the beginning of one, or nothing of the kind."""
        held = self._held
        if held.startswith(_RESULT):
            self._over = True
            return ""
        opening = _OPENING.match(held, 0, _LONGEST_OPENING)
        if opening is not None:
            self._name = opening[1] if opening[1] is not None else opening[2]
            self._held = held[opening.end() :]
            if opening[3]:
                self._held = _CLOSING + self._held
            self._seen, self._quoted, self._json = 0, False, None
            return ""
        if _may_begin(held):
            return None
        self._held, self._called = held[1:], False
        return "<"

    def _body(self) -> Written | None:
        """The call, once its end has come."""
        if self._json is None and (start := self._held.lstrip()):
            self._json = start.startswith("{")
        end = self._end_of_json() if self._json else self._held.find(_CLOSING)
        if end < 0:
            return None
        assert self._name is not None
        call = Written(self._name, self._held[:end])
        self._held = self._held[end + len(_CLOSING) :]
        self._name, self._called = None, True
        return call

    def _end_of_json(self) -> int:
        """Where `</tool>` stands outside of all strings; -1 while it is not there."""
        while mark := _STRING_MARKS.search(self._held, self._seen):
            if mark[0] == _CLOSING and not self._quoted:
                return mark.start()
            if mark[0] == "\\" and mark.end() == len(self._held):
                self._seen = mark.start()
                return -1
            if mark[0] == '"':
                self._quoted = not self._quoted
            # Behind a backslash inside a string the next character means nothing.
            skip = mark[0] == "\\" and self._quoted
            self._seen = mark.end() + 1 if skip else mark.start() + 1
        self._seen = max(self._seen, len(self._held) - len(_CLOSING) + 1)
        return -1


def _may_begin(text: str) -> bool:
    """Whether more text could turn this into the opening of a call or of a result."""
    if len(text) <= len(_RESULT) and _RESULT.startswith(text):
        return True
    if not text.startswith("<tool"):
        return False
    return text[5:6].isspace() and ">" not in text and len(text) < _LONGEST_OPENING
