"""Thoughts that a local model writes into its text: `<think>…</think>` before the answer.

Seen with DeepSeek R1, QwQ, Qwen 3 and others behind servers without a reasoning parser.
"""

_TAGS = {"<think>": "</think>", "<thinking>": "</thinking>"}


class ThinkTagFilter:
    """Tells thoughts from text, however the text is cut into pieces.

    Only tags at the very beginning count: further on they are what the model talks about.
    """

    def __init__(self) -> None:
        self._held = ""
        self._closing: str | None = None
        self._begun = False
        self._after = False

    @property
    def is_over(self) -> bool:
        """No thought can come any more, and nothing is held back."""
        return self._begun and self._closing is None and not self._after

    def feed(self, text: str) -> list[tuple[bool, str]]:
        """Pieces that are certain by now, each with whether it is a thought."""
        self._held += text
        if not self._begun and not self._begin():
            return []
        if self._closing is None:
            return self._rest()
        thought, found, rest = self._held.partition(self._closing)
        if not found:
            kept = _overlap(self._held, self._closing)
            thought, self._held = (
                self._held[: len(self._held) - kept],
                self._held[-kept:] * (kept > 0),
            )
            return [(True, thought)] if thought else []
        self._held, self._closing, self._after = rest, None, True
        return [*([(True, thought)] if thought else []), *self._rest()]

    def end(self) -> list[tuple[bool, str]]:
        """What was held back, once nothing can follow it."""
        held, self._held = self._held, ""
        self._begun = True
        if not held or (self._after and not held.strip()):
            return []
        return [(self._closing is not None, held)]

    def _begin(self) -> bool:
        """Whether it is decided by now if the text begins with a thought."""
        start = self._held.lstrip()
        for opening, closing in _TAGS.items():
            if start.startswith(opening):
                self._held, self._closing = start[len(opening) :], closing
                self._begun = True
                return True
        self._begun = not any(opening.startswith(start) for opening in _TAGS)
        return self._begun

    def _rest(self) -> list[tuple[bool, str]]:
        if self._after:
            # The blank lines between thought and answer belong to neither.
            self._held = self._held.lstrip()
            self._after = not self._held
        held, self._held = self._held, ""
        return [(False, held)] if held else []


def _overlap(text: str, tag: str) -> int:
    """How many of the last characters of the text may be the beginning of the tag."""
    return next((n for n in range(min(len(tag), len(text)), 0, -1) if tag.startswith(text[-n:])), 0)
