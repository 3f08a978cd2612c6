"""Conversion of terminal output to plain text."""

import re

# A longer line is passed on before its end, so that memory stays bounded.
_MAX_LINE_BYTES = 65_536
_MAX_SEQUENCE_BYTES = 4_096
# Moves the cursor to the first column, like a carriage return (ECMA-48, CHA).
_FIRST_COLUMN = re.compile(rb"\x1b\[[01]?G")
# Escape sequences of ECMA-48: with parameters, with a string, and of a few bytes.
_SEQUENCE = re.compile(
    rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|[]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)|[ -/]*[0-OQ-WYZ\\`-~])"
)
_OPEN_SEQUENCE = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*|[]PX^_][^\x07\x1b]*\x1b?|[ -/]*)\Z")


class TerminalOutput:
    r"""Filter that returns the text that a terminal would finally show on each line.

    Escape sequences are dropped, and if a line was overwritten (`\r`, as by a progress bar), only
    the text after the last `\r` remains; `\r\n` is a line end. A line is passed on when it is
    complete. With `partial_lines`, a line that has not been overwritten yet is passed on at once;
    if it is overwritten later, its last state follows on a separate line.
    """

    def __init__(self, *, partial_lines: bool = False) -> None:
        self._partial_lines = partial_lines
        self._sequence = self._line = b""
        self._has_begun = False

    def feed(self, data: bytes) -> bytes:
        """Return the text that is certain so far."""
        *lines, rest = (self._line + self._without_sequences(data)).split(b"\n")
        text = b"".join(map(self._finish, lines))
        self._line = _last_state(rest)
        if len(self._line) > _MAX_LINE_BYTES or (self._partial_lines and b"\r" not in rest):
            text += self._pass_on()
        return text

    def end(self) -> bytes:
        """Return the rest and empty the filter."""
        text = self._pass_on()
        self._sequence = self._line = b""
        self._has_begun = False
        return text

    def _finish(self, line: bytes) -> bytes:
        """Return a complete line with its end."""
        self._line = _last_state(line)
        line_end = b"\r\n" if line.endswith(b"\r") else b"\n"
        text = self._pass_on() + line_end
        self._line, self._has_begun = b"", False
        return text

    def _pass_on(self) -> bytes:
        r"""Return the state of the line; text that overwrites it later begins with `\r`."""
        visible = self._line.rstrip(b"\r")
        text = visible.removeprefix(b"\r")
        self._line = self._line[len(visible) :]
        if not text:
            return b""
        is_new = text != visible and self._has_begun
        self._has_begun = True
        return b"\n" + text if is_new else text

    def _without_sequences(self, data: bytes) -> bytes:
        data, self._sequence = self._sequence + data, b""
        if b"\x1b" not in data:
            return data
        last = data.rfind(b"\x1b")
        # The last one may begin the end of a string, whose sequence has begun before.
        for begin in (data.rfind(b"\x1b", 0, last), last):
            is_near = begin >= max(0, len(data) - _MAX_SEQUENCE_BYTES)
            if is_near and _OPEN_SEQUENCE.match(data, begin):
                data, self._sequence = data[:begin], data[begin:]
                break
        return _SEQUENCE.sub(b"", _FIRST_COLUMN.sub(b"\r", data)).replace(b"\x1b", b"")


def _last_state(line: bytes) -> bytes:
    r"""Return the end of a line from the last `\r` that text follows, with one `\r` at its end."""
    text = line.rstrip(b"\r")
    state = text[max(text.rfind(b"\r"), 0) :]
    return state if len(text) == len(line) else state + b"\r"
