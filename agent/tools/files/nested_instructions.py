"""AGENTS.md files between the working folder and the file being read, shown once."""

import os
from pathlib import Path

from agent.errors import ToolError
from agent.prompts import render_prompt
from agent.security.files.instruction_files import PROJECT_INSTRUCTIONS, linked_instructions
from agent.security.taint.file_marks import is_marked
from agent.security.taint.prompt_file import read_prompt_file
from agent.tools.base import CallContext
from agent.tools.file_views import FileViews, stamp
from agent.tools.files.workspace_scope import WorkspaceScope

_LIMIT_CHARS = 4_000
_MAX_FOLDERS = 8


def nested_instructions(
    path: Path, call: CallContext, views: FileViews, scope: WorkspaceScope
) -> str:
    """Return instructions for `path` that the conversation has not yet seen in their current form.

    The nearest come last; the instructions of the folder where relative paths start, and of its
    parents, are in the system prompt. As there, only the owner's text counts: untrusted folders,
    links to anything but instructions of the project, and files that may contain strangers' text
    are ignored. A call limited to some files gets no instructions.
    """
    try:
        return _texts(path, call, views, scope)
    except OSError:
        # A folder was replaced with a link meanwhile: its current text does not count.
        return ""


def _texts(path: Path, call: CallContext, views: FileViews, scope: WorkspaceScope) -> str:
    root, real = call.workspace, Path(os.path.realpath(path))
    if call.paths or not real.is_relative_to(root) or real.name in PROJECT_INSTRUCTIONS:
        return ""
    folders = [
        folder
        for folder in real.parents
        if folder.is_relative_to(root) and not call.base.is_relative_to(folder)
    ]
    texts = (_of(folder, call, views, scope) for folder in reversed(folders[:_MAX_FOLDERS]))
    return "".join(f"\n\n{text}" for text in texts if text)


def _of(folder: Path, call: CallContext, views: FileViews, scope: WorkspaceScope) -> str:
    if not call.origin.is_own(folder):
        return ""
    for name in PROJECT_INSTRUCTIONS:
        link, path = folder / name, linked_instructions(folder / name, call.workspace)
        if path is None:
            path = link
        elif not call.origin.is_own(path) or is_marked(link):
            continue
        view_stamp = stamp(path)
        if not _is_open(path, call, scope) or not (text := _read(path)):
            continue
        if views.knowledge(call.session, path) == "current":
            return ""
        views.record_view(call.session, path, view_stamp)
        if len(text) > _LIMIT_CHARS:
            text = f"{text[:_LIMIT_CHARS]}\n… (cut; read_file shows the rest)"
        return render_prompt("nested_instructions", folder=folder, path=path, text=text)
    return ""


def _is_open(path: Path, call: CallContext, scope: WorkspaceScope) -> bool:
    """Return whether the call could read the file itself; a link leads elsewhere."""
    try:
        return scope.find(str(path), call) == path
    except ToolError:
        return False


def _read(path: Path) -> str:
    """Return the beginning of a regular file; empty for others and for untrusted text."""
    if not path.is_file():
        return ""
    try:
        prompt_text = read_prompt_file(path)
    except OSError:
        return ""
    return prompt_text.text if prompt_text.level == "none" else ""
