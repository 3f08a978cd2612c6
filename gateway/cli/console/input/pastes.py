"""Placeholders for long pasted texts, which are sent in full."""

import shlex
from collections import OrderedDict
from pathlib import Path
from urllib.parse import unquote, urlsplit

from agent.i18n import plural

_MAX_LINES = 12
_MAX_CHARS = 1_500
_MAX_STORED_CHARS = 20_000_000
_MAX_PATH_CHARS = 4096


class Pastes:
    """Store of pasted texts; the oldest are dropped when it is full.

    Use `fold` for a paste and `whole` for a line before it is sent.
    """

    def __init__(self) -> None:
        self._texts: OrderedDict[str, str] = OrderedDict()
        self._pieces: OrderedDict[str, None] = OrderedDict()

    def fold(self, text: str) -> str:
        """Return the placeholder of a text, or the text if it is short.

        If it is the path of a picture, as a terminal pastes for a dropped file, it becomes a
        mention. This counts as typed, because the person sees it in the line.
        """
        if (mention := picture_mention(text)) is not None:
            return mention
        self._note(text)
        return self._fold(text)

    def recall(self, text: str) -> str:
        """Return the placeholder for a line of the history, or the line if it is short.

        A short line is assumed to be typed, so that its file mentions count when it is sent again.
        """
        folded = self._fold(text)
        if folded != text:
            self._note(text)
        return folded

    def _note(self, text: str) -> None:
        self._pieces[text] = None
        while sum(map(len, self._pieces)) > _MAX_STORED_CHARS and len(self._pieces) > 1:
            self._pieces.popitem(last=False)

    def _fold(self, text: str) -> str:
        count = text.count("\n") + (not text.endswith("\n"))
        if count <= _MAX_LINES and len(text) <= _MAX_CHARS:
            return text
        summary = plural(count, "pasted {n:,} line", "pasted {n:,} lines")
        if count <= _MAX_LINES:
            summary = plural(len(text), "pasted {n:,} character", "pasted {n:,} characters")
        return self._keep(summary, text)

    def whole(self, line: str) -> str:
        """Return the line with all placeholders expanded."""
        for mark, text in self._texts.items():
            if mark in line:
                line = line.replace(mark, text)
        return line

    def mark_before(self, line: str) -> str:
        """Return the placeholder at the end of the line, or an empty string."""
        return next((mark for mark in self._texts if line.endswith(mark)), "")

    def spans(self, line: str) -> list[tuple[int, int]]:
        """Return the spans of an expanded line that were pasted and not typed."""
        spans = []
        for piece in self._pieces:
            at = line.find(piece) if piece else -1
            while at >= 0:
                spans.append((at, at + len(piece)))
                at = line.find(piece, at + len(piece))
        return spans

    def _keep(self, summary: str, text: str) -> str:
        for number in range(1, len(self._texts) + 2):
            mark = f"[{summary}]" if number == 1 else f"[{summary}, {number}]"
            if self._texts.get(mark, text) == text:
                break
        self._texts[mark] = text
        while sum(map(len, self._texts.values())) > _MAX_STORED_CHARS and len(self._texts) > 1:
            self._texts.popitem(last=False)
        return mark


def picture_mention(text: str) -> str | None:
    """Return the mention of a picture whose full path is the whole text, or None.

    Terminals quote or escape the path of a dropped file, or write it as a URL.
    """
    line = text.strip()
    if not line.startswith(("/", "'/", '"/', "file:///")) or len(line) > _MAX_PATH_CHARS:
        return None
    if line.startswith("file:"):
        words = [unquote(urlsplit(line).path)]
    else:
        try:
            words = shlex.split(line)
        except ValueError:
            return None
    path = words[0]
    if len(words) != 1 or '"' in path or not path.isprintable() or not _is_picture(Path(path)):
        return None
    return f'@"{path}" '


def _is_picture(path: Path) -> bool:
    from agent.context.project.pointed_file import kind_of

    try:
        return path.is_file() and kind_of(path) == "picture"
    except OSError:
        return False
