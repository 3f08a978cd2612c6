"""How a model says that its task is over, blocked, or waits for a decision."""

import re

from agent.types import Signal

_PROMISE = re.compile(r"<promise>(COMPLETE|BLOCKED|DECIDE)(?::(.*?))?</promise>", re.I | re.S)


def find_signal(text: str) -> tuple[Signal | None, str | None]:
    """The last `<promise>…</promise>` of a text, with its reason."""
    found = list(_PROMISE.finditer(text))
    if not found:
        return None, None
    word, reason = found[-1].group(1).upper(), found[-1].group(2)
    signals: dict[str, Signal] = {"COMPLETE": "COMPLETE", "BLOCKED": "BLOCKED", "DECIDE": "DECIDE"}
    return signals[word], reason.strip() if reason else None
