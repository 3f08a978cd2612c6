"""What a server finds wrong with a text, and which of it is new."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Literal

from agent.code.lsp.protocol.positions import Encoding, Position, TextLines
from agent.records import frozen
from agent.text.visible import escape_line

Severity = Literal["error", "warning", "information", "hint"]
_SEVERITIES: dict[Any, Severity] = {1: "error", 2: "warning", 3: "information", 4: "hint"}
# One message may quote whole types.
_MOST_CHARS = 500
_MOST = 1_000


@frozen
class Diagnostic:
    """Something that a server has found: where it begins, its words, and the server's code."""

    position: Position
    severity: Severity
    message: str
    code: str = ""
    source: str = ""

    @property
    def identity(self) -> tuple[str, str, str]:
        """What stays the same when other lines move."""
        return (self.severity, self.code, self.message)

    def __str__(self) -> str:
        code = f" ({self.code})" if self.code else ""
        position = self.position
        return f"{position.line + 1}:{position.character + 1} {self.severity}: {self.message}{code}"


def read_diagnostics(items: Any, text: str, encoding: Encoding) -> tuple[Diagnostic, ...]:
    """Those in a server's list, in the order of the text; what has no shape is left out."""
    lines = TextLines(text)
    diagnostics = []
    for item in items[:_MOST] if isinstance(items, list) else ():
        try:
            offset = lines.offset(item["range"]["start"], encoding)
            message = item["message"]
            # Since 3.18 the message may be Markdown.
            words = str(message["value"] if isinstance(message, dict) else message)
        except (KeyError, TypeError, ValueError, OverflowError):
            continue
        code, severity = item.get("code"), item.get("severity")
        diagnostics.append(
            Diagnostic(
                lines.position(offset),
                _SEVERITIES.get(severity if isinstance(severity, int) else None, "error"),
                _short(words),
                _short(str(code)) if code is not None else "",
                _short(str(item.get("source") or "")),
            )
        )
    return tuple(sorted(diagnostics, key=lambda one: (one.position.line, one.position.character)))


def new_errors(before: Iterable[Diagnostic], after: Sequence[Diagnostic]) -> list[Diagnostic]:
    """The errors of `after` that `before` has not as often: where they stand does not count, as
    every edit moves lines."""
    counts = Counter(one.identity for one in before if one.severity == "error")
    diagnostics = []
    # Of several that are alike the last ones count as new.
    for one in after:
        if one.severity != "error":
            continue
        if counts[one.identity] > 0:
            counts[one.identity] -= 1
        else:
            diagnostics.append(one)
    return diagnostics


def _short(text: str) -> str:
    line = escape_line(" ".join(text.split()))
    return line if len(line) <= _MOST_CHARS else f"{line[: _MOST_CHARS - 1]}…"
