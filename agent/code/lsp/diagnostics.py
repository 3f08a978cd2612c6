"""Diagnostics of language servers and the comparison that finds new ones."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Literal

from agent.code.lsp.protocol.positions import Encoding, Position, TextLines
from agent.records import frozen
from agent.text.visible import escape_line
from agent.tools.files.draft_check import Renaming

Severity = Literal["error", "warning", "information", "hint"]
_SEVERITIES: dict[Any, Severity] = {1: "error", 2: "warning", 3: "information", 4: "hint"}
# A message may quote long types.
_MAX_CHARS = 500
_MAX_DIAGNOSTICS = 1_000


@frozen
class Diagnostic:
    """Diagnostic: its start position, message and the server's code."""

    position: Position
    severity: Severity
    message: str
    code: str = ""
    source: str = ""

    @property
    def identity(self) -> tuple[str, str, str]:
        """Properties that stay the same when other lines move."""
        return (self.severity, self.code, self.message)

    def __str__(self) -> str:
        code = f" ({self.code})" if self.code else ""
        position = self.position
        return f"{position.line + 1}:{position.character + 1} {self.severity}: {self.message}{code}"


def read_diagnostics(items: Any, text: str, encoding: Encoding) -> tuple[Diagnostic, ...]:
    """Parse the diagnostics of a server, sorted by position; malformed items are skipped."""
    lines = TextLines(text)
    diagnostics = []
    for item in items[:_MAX_DIAGNOSTICS] if isinstance(items, list) else ():
        try:
            offset = lines.offset(item["range"]["start"], encoding)
            message = item["message"]
            # The message may be Markdown since version 3.18.
            text_of_message = str(message["value"] if isinstance(message, dict) else message)
        except (KeyError, TypeError, ValueError, OverflowError):
            continue
        code, severity = item.get("code"), item.get("severity")
        diagnostics.append(
            Diagnostic(
                lines.position(offset),
                _SEVERITIES.get(severity if isinstance(severity, int) else None, "error"),
                _shorten(text_of_message),
                _shorten(str(code)) if code is not None else "",
                _shorten(str(item.get("source") or "")),
            )
        )
    return tuple(
        sorted(
            diagnostics,
            key=lambda diagnostic: (diagnostic.position.line, diagnostic.position.character),
        )
    )


def new_errors(
    before: Iterable[Diagnostic],
    after: Sequence[Diagnostic],
    renaming: Renaming | None = None,
) -> list[Diagnostic]:
    """Return the errors of `after` that occur more often than in `before`.

    Positions are ignored, because every edit moves lines. After a `renaming`, earlier errors may
    quote the new name.
    """
    counts = Counter(diagnostic.identity for diagnostic in before if diagnostic.severity == "error")
    errors = _without(counts, (item for item in after if item.severity == "error"))
    if renaming is None:
        return errors
    old_name = re.compile(rf"(?<!\w){re.escape(renaming.old)}(?!\w)")
    renamed_counts: Counter[tuple[str, str, str]] = Counter()
    for (severity, code, message), count in counts.items():
        renamed = _shorten(old_name.sub(lambda _: renaming.new, message))
        renamed_counts[severity, code, renamed] += count
    return _without(renamed_counts, errors)


def _without(
    counts: Counter[tuple[str, str, str]], errors: Iterable[Diagnostic]
) -> list[Diagnostic]:
    """Return the errors that are not counted, and subtract the others from the counts."""
    diagnostics = []
    # Of several equal errors, the last ones count as new.
    for diagnostic in errors:
        if counts[diagnostic.identity] > 0:
            counts[diagnostic.identity] -= 1
        else:
            diagnostics.append(diagnostic)
    return diagnostics


def _shorten(text: str) -> str:
    line = escape_line(" ".join(text.split()))
    return line if len(line) <= _MAX_CHARS else f"{line[: _MAX_CHARS - 1]}…"
