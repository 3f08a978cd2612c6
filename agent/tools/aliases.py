"""What models call tools and arguments by that were trained with other ones."""

import shlex
from collections.abc import Collection, Mapping
from typing import Any

from agent.tools.base import Tool
from agent.tools.schema import properties_of

_CHANGE_FILES = frozenset(
    {"append_file", "apply_patch", "edit_file", "exec", "sync_virtual", "write_file"}
)

# What models that were trained with other tools write. Case, "_" and "-" do not matter.
NAMES = {
    "read": "read_file",
    "fileread": "read_file",
    "view": "read_file",
    "cat": "read_file",
    "write": "write_file",
    "filewrite": "write_file",
    "createfile": "write_file",
    "edit": "edit_file",
    "fileedit": "edit_file",
    "multiedit": "edit_file",
    "append": "append_file",
    "move": "move_file",
    "mv": "move_file",
    "rename": "move_file",
    "renamefile": "move_file",
    "delete": "move_file",
    "deletefile": "move_file",
    "removefile": "move_file",
    "rm": "move_file",
    "ls": "list_dir",
    "listfiles": "list_dir",
    "listdirectory": "list_dir",
    "bash": "exec",
    "shell": "exec",
    "runcommand": "exec",
    "runshellcommand": "exec",
    "globfiles": "glob",
    "findfiles": "glob",
    "search": "grep",
    "ripgrep": "grep",
    "rg": "grep",
    "searchfiles": "grep",
    "processes": "process",
    "fetch": "web_fetch",
    "agent": "task",
    "delegate": "task",
    "spawnagent": "task",
    "searchmemory": "memory_search",
    "recall": "memory_search",
    "cron": "schedule",
    "reminder": "schedule",
    "remind": "schedule",
    "setreminder": "schedule",
    "schedulejob": "schedule",
    "todowrite": "todo",
    "updateplan": "todo",
    "updatetodos": "todo",
    "askuserquestion": "ask_user",
    "askfollowupquestion": "ask_user",
    "lsprequest": "lsp",
    "repomap": "outline",
    "repositorymap": "outline",
    "getsymbolsoverview": "outline",
    "languageserver": "lsp",
    "sendfiles": "send_file",
    "senddocument": "send_file",
    "sendphoto": "send_file",
}
_PATH = {"file_path": "path", "filepath": "path", "file": "path", "filename": "path"}
_FOLDER = {"dir": "path", "directory": "path", "folder": "path"}
_LSP = {"method": "operation", "name": "symbol", "column": "character", "newName": "new_name"}
ARGUMENTS: dict[str, dict[str, str]] = {
    "read_file": {**_PATH, "start_line": "line_start", "end_line": "line_end"},
    "write_file": {**_PATH, "text": "content", "contents": "content"},
    "append_file": {**_PATH, "text": "content", "contents": "content"},
    "move_file": {
        **_PATH,
        **dict.fromkeys(("source", "src", "from", "old_path", "source_path"), "path"),
        **dict.fromkeys(("destination", "dest", "target", "new_path", "destination_path"), "to"),
    },
    "apply_patch": {"patch": "input", "patch_text": "input", "diff": "input", "content": "input"},
    "edit_file": {
        **_PATH,
        "old_text": "old_string",
        "new_text": "new_string",
        "old_str": "old_string",
        "new_str": "new_string",
    },
    "lsp": {**_PATH, **_LSP},
    "lsp_edit": {**_PATH, **_LSP},
    "outline": {**_PATH, **_FOLDER},
    "list_dir": {**_PATH, **_FOLDER},
    "glob": {**_FOLDER, "query": "pattern", "glob": "pattern"},
    "grep": {
        **_PATH,
        **_FOLDER,
        "query": "pattern",
        "regex": "pattern",
        "include": "glob",
        "file_pattern": "glob",
        "-i": "ignore_case",
        "-C": "context",
        "-A": "context",
        "-B": "context",
        "max_results": "head_limit",
    },
    "exec": {
        "cmd": "command",
        "timeout": "timeout_s",
        "cwd": "workdir",
        "run_in_background": "background",
    },
    "process": {"input": "text", "data": "text", "process_id": "id", "timeout_s": "wait_s"},
    "web_search": {"q": "query", "max_results": "count", "num_results": "count"},
    "web_fetch": {"uri": "url", "link": "url"},
    "send_file": {**dict.fromkeys(_PATH, "paths"), "path": "paths", "files": "paths"},
    "todo": {"todos": "items", "plan": "items"},
    "task": {"agent": "subagent_type", "run_in_background": "background", "title": "description"},
    "schedule": {
        "message": "text",
        "time": "when",
        "at": "when",
        "cron": "when",
        "every": "when",
        "job_id": "id",
    },
    "remember": {"fact": "text", "content": "text", "memory": "text"},
}
# Said by models about their call; no tool does anything with it.
IGNORED = {
    "exec": {"description"},
    "web_fetch": {"prompt"},
    "grep": {"output_mode", "-n", "multiline"},
}


def canonical(tool: Tool, args: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments under the tool's own names for them."""
    properties = properties_of(tool.parameters)
    aliases = ARGUMENTS.get(tool.name, {})
    ignored = IGNORED.get(tool.name, set())
    renamed = {name: value for name, value in args.items() if name in properties}
    for name, value in args.items():
        if name in properties or name in ignored:
            continue
        target = aliases.get(name, name)
        renamed.setdefault(target if target in properties else name, value)
    if isinstance(one := renamed.get("paths"), str):
        renamed["paths"] = [one]
    if isinstance(words := renamed.get("command"), list) and all(isinstance(w, str) for w in words):
        renamed["command"] = _line(words)
    return _window(renamed) if "line_start" in properties else renamed


def with_edits_of_lsp(names: Collection[str]) -> frozenset[str]:
    """Names of tools, with that of the calls of `lsp` that change files where it is named beside
    a tool that changes files, too: who may only look stays so."""
    may_edit = "lsp" in names and not _CHANGE_FILES.isdisjoint(names)
    return frozenset({*names, "lsp_edit"} if may_edit else names)


def _line(words: list[str]) -> str:
    """A list of arguments as one line; a shell that is only there to run a line is left out."""
    match words:
        case ["bash" | "sh" | "/bin/bash" | "/bin/sh", "-c" | "-lc", line]:
            return line
    return shlex.join(words)


def _window(args: dict[str, Any]) -> dict[str, Any]:
    """`offset` (1-based) and `limit` as a range of lines."""
    offset, limit = args.pop("offset", None), args.pop("limit", None)
    if offset is not None:
        args.setdefault("line_start", offset)
    start = args.get("line_start")
    if _count(limit) and (start is None or _count(start)):
        args.setdefault("line_end", max(1, start or 1) + max(1, limit) - 1)
    elif limit is not None:
        args.setdefault("line_end", limit)
    return args


def _count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
