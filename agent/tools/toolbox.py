"""The tools of an agent: their fixed order, the names that models call them by, their checks."""

import asyncio
import difflib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent.errors import ToolError
from agent.providers.base import ToolSpec
from agent.security.taint import NOTHING
from agent.settings import ToolSettings
from agent.tools.arguments import Arguments
from agent.tools.base import Closes, Ends, Lingers, Running, Sees, Tool
from agent.tools.views import Views
from agent.types import Taint

if TYPE_CHECKING:
    from agent.tools.processes import Processes

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
    "todowrite": "todo",
    "updateplan": "todo",
    "updatetodos": "todo",
    "askuserquestion": "ask_user",
    "askfollowupquestion": "ask_user",
}
_PATH = {"file_path": "path", "filepath": "path", "file": "path", "filename": "path"}
_FOLDER = {"dir": "path", "directory": "path", "folder": "path"}
ARGUMENTS: dict[str, dict[str, str]] = {
    "read_file": {**_PATH, "start_line": "line_start", "end_line": "line_end"},
    "write_file": {**_PATH, "text": "content", "contents": "content"},
    "append_file": {**_PATH, "text": "content", "contents": "content"},
    "edit_file": {
        **_PATH,
        "old_text": "old_string",
        "new_text": "new_string",
        "old_str": "old_string",
        "new_str": "new_string",
    },
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
    "todo": {"todos": "items", "plan": "items"},
    "task": {"agent": "subagent_type", "run_in_background": "background", "title": "description"},
    "remember": {"fact": "text", "content": "text", "memory": "text"},
}
# Said by models about their call; no tool does anything with it.
IGNORED = {
    "exec": {"description"},
    "web_fetch": {"prompt"},
    "grep": {"output_mode", "-n", "multiline"},
}


class Toolbox:
    """Tools by name, in the order they were given. A later tool replaces one of the same name."""

    def __init__(self, tools: Sequence[Tool]) -> None:
        self._tools = {tool.name: tool for tool in tools}
        self._folded = {_folded(name): name for name in self._tools}
        self._checks: dict[str, Arguments] = {}
        self._specs: tuple[ToolSpec, ...] = ()
        # Looked for once: asking each tool for what it can costs more than most calls.
        self._lingering = [tool for tool in self._tools.values() if isinstance(tool, Lingers)]
        self._seeing = next((tool for tool in self._tools.values() if isinstance(tool, Sees)), None)
        self._nothing_seen = Views()

    def specs(self) -> tuple[ToolSpec, ...]:
        """The tools as the model sees them: the same objects at every call, so that a provider
        encodes them once, until a description changes: that of `task` names the agents there are.
        """
        told = [tool.description for tool in self._tools.values()]
        if told != [spec.description for spec in self._specs]:
            self._specs = tuple(
                ToolSpec(tool.name, description, tool.parameters)
                for tool, description in zip(self._tools.values(), told, strict=True)
            )
        return self._specs

    @property
    def views(self) -> Views:
        """What conversations have seen of files."""
        return self._seeing.views if self._seeing is not None else self._nothing_seen

    def tasks(self, session: str) -> list[Running]:
        """What goes on in the background of a session."""
        return [task for tool in self._lingering for task in tool.tasks(session)]

    def kill(self, session: str, id: str) -> bool:
        """End one of it; False when none is called so."""
        return any(tool.kill(session, id) for tool in self._lingering)

    async def facts(self, session: str) -> list[str]:
        """What the model should know of work that goes on, and of files that have changed, as a
        turn of this session begins; the disk may take its time."""
        lingering = [fact for tool in self._lingering for fact in tool.facts(session)]
        return [*lingering, *await asyncio.to_thread(self.views.facts, session)]

    def told(self, session: str) -> None:
        """A turn has begun, and knows the facts."""
        self.views.told(session)
        for tool in self._lingering:
            tool.told(session)

    def lingering(self, workspace: Path) -> frozenset[Taint]:
        """What work that goes on may bring into any file of a workspace."""
        return NOTHING.union(*(tool.lingering(workspace) for tool in self._lingering))

    async def end(self, session: str) -> None:
        """Let go of what belongs to a session."""
        self.views.end(session)
        for tool in self._tools.values():
            if isinstance(tool, Ends):
                await tool.end(session)

    async def aclose(self) -> None:
        """Let go of everything."""
        for tool in self._tools.values():
            if isinstance(tool, Closes):
                await tool.aclose()

    def only(self, chosen: Callable[[str], bool]) -> "Toolbox":
        """The same tools, as far as they are chosen by their names."""
        return Toolbox([tool for tool in self._tools.values() if chosen(tool.name)])

    def find(self, name: str) -> Tool | None:
        """The tool of this name or alias, or None."""
        if name in self._tools:
            return self._tools[name]
        folded = _folded(name)
        return self._tools.get(self._folded.get(folded) or NAMES.get(folded, ""))

    def name(self, called: str) -> str:
        """The name of the tool that is called so; what no tool answers to stays as it is."""
        tool = self.find(called)
        return tool.name if tool else called

    def get(self, name: str) -> Tool:
        """`find`. Raises ToolError with the closest name, or all of them."""
        if (tool := self.find(name)) is not None:
            return tool
        close = difflib.get_close_matches(name.casefold(), self._tools, 1)
        hint = f"did you mean {close[0]}?" if close else f"there are {', '.join(self._tools)}."
        raise ToolError(f"There is no tool {name[:80]!r}; {hint}")

    def validate(self, tool: Tool, args: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments under their canonical names. Raises ToolError for a wrong one."""
        check = self._checks.get(tool.name)
        if check is None:
            check = self._checks[tool.name] = Arguments(tool.name, tool.parameters)
        return check.validate(_canonical(tool, args))


@dataclass(slots=True)
class Held:
    """What the built-in tools hold between calls: it goes on when they are made anew."""

    processes: "Processes | None" = None
    views: Views = field(default_factory=Views)

    @property
    def begun(self) -> bool:
        """Whether tools were made with it."""
        return self.processes is not None


def default_tools(
    settings: ToolSettings,
    roster: Callable[[], str] | None = None,
    held: Held | None = None,
) -> list[Tool]:
    """The built-in tools; `roster` names the agents that can be sent out."""
    from agent.tools.ask import AskUser
    from agent.tools.delegate import Delegate
    from agent.tools.edit import EditFile
    from agent.tools.fetch import WebFetch
    from agent.tools.files import AppendFile, ReadFile, WriteFile
    from agent.tools.folder import ListDir
    from agent.tools.glob import GlobFiles
    from agent.tools.grep import Grep
    from agent.tools.memory import Remember
    from agent.tools.process import Process
    from agent.tools.processes import Processes
    from agent.tools.recall import MemorySearch
    from agent.tools.search import WebSearch
    from agent.tools.shell import Exec
    from agent.tools.todo import Todo
    from agent.tools.undo import Undo

    held = held or Held()
    processes = held.processes = held.processes or Processes()
    views = held.views
    return [
        ReadFile(settings, views),
        WriteFile(settings, views),
        EditFile(settings, views),
        AppendFile(settings, views),
        ListDir(settings),
        GlobFiles(settings),
        Grep(settings),
        Exec(settings, processes=processes),
        Process(settings, processes),
        WebSearch(settings),
        WebFetch(settings),
        Remember(settings),
        MemorySearch(settings),
        Todo(),
        Undo(settings),
        AskUser(),
        Delegate(roster),
    ]


def _folded(name: str) -> str:
    return name.casefold().replace("_", "").replace("-", "")


def _canonical(tool: Tool, args: Mapping[str, Any]) -> dict[str, Any]:
    known = tool.parameters.get("properties", {})
    aliases = ARGUMENTS.get(tool.name, {})
    ignored = IGNORED.get(tool.name, set())
    renamed = {name: value for name, value in args.items() if name in known}
    for name, value in args.items():
        if name in known or name in ignored:
            continue
        target = aliases.get(name, name)
        renamed.setdefault(target if target in known else name, value)
    return _window(renamed) if "line_start" in known else renamed


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
