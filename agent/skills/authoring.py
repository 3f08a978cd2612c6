"""Authoring of a skill from a conversation: `/skills new`."""

import re
from pathlib import Path

from agent.prompts import load_prompt, render_prompt

_NEW = re.compile(r"/skills(?:@\w+)?\s+new\b(.*)", re.DOTALL | re.IGNORECASE)


def find_skill_request(text: str) -> str | None:
    """Return the request in a `/skills new` message, or None for other messages."""
    match = _NEW.fullmatch(text.strip())
    return None if match is None else match[1].strip()


def writing_request(request: str, root: Path, workspace: Path, *, is_tainted: bool = False) -> str:
    """Return the prompt to write a skill, with its folder.

    In the assistant's own workspace, a skill belongs to the assistant, elsewhere to the project.
    `is_tainted`: the conversation contains untrusted text.
    """
    is_workspace = root.resolve() == workspace.resolve()
    folder = "skills" if is_workspace else ".agents/skills"
    text = render_prompt("write_skill", what=f": {request}" if request else "", folder=folder)
    return f"{text}\n\n{load_prompt('write_skill_tainted')}" if is_tainted else text
