"""Changes of a home that keep answers valid, because a person allowed the command.

An allowed build fills its caches with every run, and would otherwise be asked about each time.
Changes by any other command end the answers.
"""

import json
from contextlib import suppress
from pathlib import Path

from agent.tools.shell.home_settings import HomeSettings

_NAME = "home.json"


def answered_digest(folder: Path, home: HomeSettings) -> str:
    """Return the digest that answers are bound to.

    It is the digest of the home before the last changes by allowed commands. `folder` belongs to
    the conversation, and is hidden from commands. May block.
    """
    try:
        record = json.loads((folder / _NAME).read_text("utf-8"))
        return str(record["counts_as"]) if record["found"] == home.digest else home.digest
    except (OSError, ValueError, LookupError, TypeError):
        return home.digest


def record_allowed_changes(folder: Path, before: HomeSettings, after: HomeSettings) -> None:
    """Keep answers to the home `before` valid for the home `after` an allowed command.

    The command must have run alone. Without a record the answers end. May block.
    """
    if before.unbound is not None or after.unbound is not None or before.digest == after.digest:
        return
    record = {"found": after.digest, "counts_as": answered_digest(folder, before)}
    with suppress(OSError):
        part = folder / f"{_NAME}.part"
        part.write_text(json.dumps(record), "utf-8")
        part.replace(folder / _NAME)
