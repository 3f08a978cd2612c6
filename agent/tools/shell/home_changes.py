"""Changes that a home may have without ending an answer: those of commands that a person allowed.

A build that is allowed fills its caches with every run. What it leaves is of its own making, so an
answer that held before it holds after it; what any other command leaves ends it.
"""

import json
from contextlib import suppress
from pathlib import Path

from agent.tools.shell.home_settings import HomeSettings

_NAME = "home.json"


def answered_digest(folder: Path, found: HomeSettings) -> str:
    """Return the digest that answers are bound to: of the home as it was before the last changes
    of allowed commands. `folder` belongs to the conversation, and no command sees it. May block."""
    try:
        record = json.loads((folder / _NAME).read_text("utf-8"))
        return str(record["counts_as"]) if record["found"] == found.digest else found.digest
    except (OSError, ValueError, LookupError, TypeError):
        return found.digest


def record_allowed_changes(folder: Path, before: HomeSettings, after: HomeSettings) -> None:
    """Let answers that hold for the home `before` hold for it `after` an allowed command, during
    which no other one ran. Where it cannot be recorded, they end. May block."""
    if before.unbound is not None or after.unbound is not None or before.digest == after.digest:
        return
    record = {"found": after.digest, "counts_as": answered_digest(folder, before)}
    with suppress(OSError):
        part = folder / f"{_NAME}.part"
        part.write_text(json.dumps(record), "utf-8")
        part.replace(folder / _NAME)
