"""A skill that Kore writes itself, of what a conversation did: `/skills new`."""

import re
from pathlib import Path

from agent.prompts import render_prompt

_NEW = re.compile(r"/skills(?:@\w+)?\s+new\b(.*)", re.DOTALL | re.IGNORECASE)


def wish_in(text: str) -> str | None:
    """What a message says of the skill that it wants written; None when it wants none."""
    match = _NEW.fullmatch(text.strip())
    return None if match is None else match[1].strip()


def writing_request(wish: str, root: Path, workspace: Path) -> str:
    """What the model is told: where the skill belongs, and what a good one says. In the
    workspace's own folder it is the assistant's, elsewhere the project's."""
    is_workspace = root.resolve() == workspace.resolve()
    folder = "skills" if is_workspace else ".agents/skills"
    return render_prompt("write_skill", what=f": {wish}" if wish else "", folder=folder)
