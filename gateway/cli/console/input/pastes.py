"""Long texts that were pasted: a few words stand for them on the line, and all of it is sent."""

from collections import OrderedDict

from agent.i18n import plural

_LINES = 12
_CHARS = 1_500
_STORED_CHARS = 20_000_000


class Pastes:
    """`fold` what was pasted, `whole` a line before it is sent. Of very many the oldest go."""

    def __init__(self) -> None:
        self._texts: OrderedDict[str, str] = OrderedDict()
        self._pieces: OrderedDict[str, None] = OrderedDict()

    def fold(self, text: str) -> str:
        """What stands for the text on the line: itself, when it is short."""
        self._note(text)
        return self._fold(text)

    def recall(self, text: str) -> str:
        """What stands for a line of an earlier conversation. One that is short was typed, for all
        that is known: typed again, it means the files that it names."""
        folded = self._fold(text)
        if folded != text:
            self._note(text)
        return folded

    def _note(self, text: str) -> None:
        self._pieces[text] = None
        while sum(map(len, self._pieces)) > _STORED_CHARS and len(self._pieces) > 1:
            self._pieces.popitem(last=False)

    def _fold(self, text: str) -> str:
        count = text.count("\n") + (not text.endswith("\n"))
        if count <= _LINES and len(text) <= _CHARS:
            return text
        summary = plural(count, "pasted {n:,} line", "pasted {n:,} lines")
        if count <= _LINES:
            summary = plural(len(text), "pasted {n:,} character", "pasted {n:,} characters")
        return self._keep(summary, text)

    def whole(self, line: str) -> str:
        """The line with all that its placeholders stand for."""
        for mark, text in self._texts.items():
            if mark in line:
                line = line.replace(mark, text)
        return line

    def mark_before(self, line: str) -> str:
        """The placeholder that the line ends with, or ''."""
        return next((mark for mark in self._texts if line.endswith(mark)), "")

    def spans(self, line: str) -> list[tuple[int, int]]:
        """Where in a whole line stands what was pasted and not typed."""
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
        while sum(map(len, self._texts.values())) > _STORED_CHARS and len(self._texts) > 1:
            self._texts.popitem(last=False)
        return mark
