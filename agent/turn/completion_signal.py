"""Completion signals of the model: task complete, blocked, or waiting for a decision."""

import re

from agent.types import Signal

_PROMISE = re.compile(r"<promise>(COMPLETE|BLOCKED|DECIDE)(?::(.*?))?</promise>", re.I | re.S)


_UNFINISHED = re.compile(r"<promise>(?:(?!</promise>).)*\Z", re.I | re.S)


def find_signal(text: str) -> tuple[Signal | None, str | None]:
    """Return the signal and reason of the last `<promise>…</promise>` in the text."""
    matches = list(_PROMISE.finditer(text))
    if not matches:
        return None, None
    word, reason = matches[-1].group(1).upper(), matches[-1].group(2)
    signals: dict[str, Signal] = {"COMPLETE": "COMPLETE", "BLOCKED": "BLOCKED", "DECIDE": "DECIDE"}
    return signals[word], reason.strip() if reason else None


def humanize_signals(text: str, *, growing: bool = False) -> str:
    """Return the text with readable signals, for screens without a separate display of them.

    An incomplete signal at the end of a text that is still `growing` is omitted.
    """
    return _PROMISE.sub(_in_words, _UNFINISHED.sub("", text) if growing else text)


def _in_words(promise: re.Match[str]) -> str:
    word, reason = promise.group(1).upper(), (promise.group(2) or "").strip()
    return f"■ {word}: {reason}" if reason else f"■ {word}"
