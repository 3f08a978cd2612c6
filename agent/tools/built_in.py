"""Built-in tools: their order, and their construction from shared parts."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any

from agent.settings import ToolSettings
from agent.tools.base import Tool
from agent.tools.file_views import FileViews
from agent.tools.shell.process_registry import ProcessRegistry
from agent.tools.shell.session_space import SessionSpaces

if TYPE_CHECKING:
    from agent.tools.files.draft_check import DraftCheck

# In the order that models see. The constructors take the parts of `default_tools` by name.
_CLASSES = (
    "agent.tools.files.read_write:ReadFile",
    "agent.tools.files.read_write:WriteFile",
    "agent.tools.files.edit:EditFile",
    "agent.tools.files.read_write:AppendFile",
    "agent.tools.files.move:MoveFile",
    "agent.tools.files.list_dir:ListDir",
    "agent.tools.files.glob:Glob",
    "agent.tools.files.grep:Grep",
    "agent.tools.shell.exec:Exec",
    "agent.tools.shell.process_tool:ProcessTool",
    "agent.tools.web.search:WebSearch",
    "agent.tools.web.fetch:WebFetch",
    "agent.tools.assistant.remember:Remember",
    "agent.tools.assistant.memory_search:MemorySearch",
    "agent.tools.assistant.todo:Todo",
    "agent.tools.files.undo:Undo",
    "agent.tools.assistant.ask_user:AskUser",
    "agent.tools.assistant.send_file:SendFile",
    "agent.tools.assistant.schedule:ScheduleTool",
    "agent.tools.assistant.subagent:SubagentTool",
    "agent.tools.files.patch:ApplyPatch",
)


@dataclass(slots=True)
class RegistryDefaults:
    """State of the built-in tools between calls, which survives when the tools are recreated."""

    processes: ProcessRegistry | None = None
    views: FileViews = field(default_factory=FileViews)
    drafts: "DraftCheck | None" = None

    @property
    def has_begun(self) -> bool:
        """True once tools were created with this state."""
        return self.processes is not None


def default_tools(
    settings: ToolSettings,
    roster: Callable[[], str] | None = None,
    defaults: RegistryDefaults | None = None,
) -> list[Tool]:
    """Return the built-in tools; `roster` lists the available sub-agents."""
    defaults = defaults or RegistryDefaults()
    if defaults.processes is None:
        defaults.processes = ProcessRegistry(SessionSpaces(settings.temporary_folder))
    parts = {
        "settings": settings,
        "views": defaults.views,
        "drafts": defaults.drafts,
        "processes": defaults.processes,
        "roster": roster,
    }
    return [_construct(tool_class(path), parts) for path in _CLASSES]


def tool_class(path: str) -> Any:
    """Return the class at `module:name`."""
    module, _, name = path.partition(":")
    return getattr(import_module(module), name)


def _construct(cls: Any, parts: Mapping[str, Any]) -> Tool:
    names = getattr(cls.__init__, "__annotations__", {}).keys() & parts.keys()
    tool: Tool = cls(**{name: parts[name] for name in names})
    return tool
