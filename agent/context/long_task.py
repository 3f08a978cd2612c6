"""Long tasks: files in a folder that preserve the state of a task across sessions."""

import os
from pathlib import Path

from agent.prompts import render_prompt
from agent.security.files.safe_open import open_regular_beneath
from agent.security.taint.file_marks import is_marked
from agent.security.taint.taint import NOTHING, PRIVATE, UNTRUSTED
from agent.tools.files.feature_list import LIST, PROGRESS, Feature, parse_features
from agent.types import Taint

PLAN = ".kore/session_plan.md"
# Path in KodaX.
_OTHER_PLAN = ".kodax/session_plan.md"
MAX_PROGRESS_CHARS = 1_500
_LIMIT_BYTES = 200_000
_MAX_LINES = 60
_MAX_LINE_CHARS = 200


def features_of(folder: Path) -> tuple[Feature, ...] | None:
    """Return the checklist of the folder, or None if it is missing or invalid."""
    return parse_features(text_of(folder, LIST))


def plan_of(folder: Path) -> str:
    """Return the name of the session plan: Kore's, unless only KodaX's exists."""
    other = not (folder / PLAN).exists() and (folder / _OTHER_PLAN).exists()
    return _OTHER_PLAN if other else PLAN


def describe_progress(folder: Path) -> str:
    """Return the description of the folder's long work for a session, '' if there is none.

    It changes often, so it is appended to the conversation instead of the prompt.
    """
    features = features_of(folder)
    if features is None:
        return ""
    lines = [
        f"[{'x' if feature.passes else ' '}] {feature.description[:_MAX_LINE_CHARS]}"
        for feature in features
    ]
    first_open = next((n for n, item in enumerate(features) if not item.passes), 0)
    # If the list is too long, completed features are omitted first, because the next open ones
    # matter.
    start = max(0, min(first_open - 5, len(lines) - _MAX_LINES))
    excerpt = lines[start : start + _MAX_LINES]
    if (remaining := len(lines) - len(excerpt)) > 0:
        excerpt.append(f"… and {remaining} more in {LIST}")
    progress = text_of(folder, PROGRESS)[:MAX_PROGRESS_CHARS].strip()
    return render_prompt(
        "long_mode",
        plan=plan_of(folder),
        passing=sum(feature.passes for feature in features),
        total=len(features),
        checklist="\n".join(excerpt),
        progress=render_prompt("long_progress", text=progress) if progress else "",
    ).strip()


def taint_of(folder: Path) -> frozenset[Taint]:
    """Return the taint that `describe_progress` adds to a session."""
    if features_of(folder) is None:
        return NOTHING
    is_tainted = any(is_marked(folder / name) for name in (LIST, PROGRESS))
    return PRIVATE | UNTRUSTED if is_tainted else PRIVATE


def text_of(folder: Path, name: str) -> str:
    """Return the text of a file, or '' if it is missing, a link or larger than Kore's files."""
    path = folder / name
    try:
        # Few folders have the file, and opening it safely is expensive.
        os.lstat(path)
        with open_regular_beneath(path) as file:
            data = file.read(_LIMIT_BYTES + 1)
    except OSError:
        return ""
    return data.decode("utf-8-sig", "replace") if len(data) <= _LIMIT_BYTES else ""
