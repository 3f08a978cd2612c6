"""AGENTS.md of the folders between the working folder and a file that is read, shown once."""

import os
from pathlib import Path

from agent.errors import ToolError
from agent.prompts import render_prompt
from agent.security.taint.prompt_file import read_prompt_file
from agent.tools.base import CallContext
from agent.tools.file_views import FileViews, stamp
from agent.tools.files.workspace_scope import WorkspaceScope

_NAMES = ("AGENTS.md", "CLAUDE.md")
_LIMIT_CHARS = 4_000
_MOST_FOLDERS = 8


def nested_instructions(
    path: Path, call: CallContext, views: FileViews, scope: WorkspaceScope
) -> str:
    """The instructions that apply to `path` and that the conversation has not seen as they are
    now, the nearest last; those of the working folder itself are in the system prompt.

    As there, only the owner's word counts: nothing of an untrusted folder, no link, and no file
    that strangers' words may stand in. A call that is limited to some files gets none.
    """
    try:
        return _texts(path, call, views, scope)
    except OSError:
        # A folder was exchanged for a link meanwhile: what it says by now is no rule.
        return ""


def _texts(path: Path, call: CallContext, views: FileViews, scope: WorkspaceScope) -> str:
    root, real = call.workspace, Path(os.path.realpath(path))
    if call.paths or not real.is_relative_to(root) or real.name in _NAMES:
        return ""
    folders = [folder for folder in real.parents if folder != root and folder.is_relative_to(root)]
    texts = (_of(folder, call, views, scope) for folder in reversed(folders[:_MOST_FOLDERS]))
    return "".join(f"\n\n{text}" for text in texts if text)


def _of(folder: Path, call: CallContext, views: FileViews, scope: WorkspaceScope) -> str:
    if not call.origin.is_own(folder):
        return ""
    for name in _NAMES:
        path = folder / name
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
    """Whether the call could read it as well; a link leads elsewhere."""
    try:
        return scope.find(str(path), call) == path
    except ToolError:
        return False


def _read(path: Path) -> str:
    """The file's beginning; nothing where there is no regular file, or untrusted text in it."""
    if not path.is_file():
        return ""
    try:
        prompt_text = read_prompt_file(path)
    except OSError:
        return ""
    return prompt_text.text if prompt_text.level == "none" else ""
