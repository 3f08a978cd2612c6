"""What the model is told of a tool beyond its description, when it works in a project: when to use
it, and what its parameters mean. A plain conversation does without, for the sake of its length."""

from dataclasses import dataclass, field
from functools import cache

from agent.prompts import load_prompt
from agent.tools.base import Tool
from agent.tools.schema import properties_of
from agent.types import JsonSchema

# Where the built-in tools are.
_ROOMS = (
    *(f"agent.tools.{room}." for room in ("assistant", "files", "shell", "web")),
    "agent.code.",
)


@dataclass
class ToolHelp:
    """The text of one tool, and of its parameters by their names."""

    text: str = ""
    parameters: dict[str, str] = field(default_factory=dict)

    def describe(self, description: str) -> str:
        """A description with this text."""
        return f"{description} {self.text}".strip()

    def annotate(self, schema: JsonSchema) -> JsonSchema:
        """A schema with these descriptions at its own properties."""
        properties = {
            name: {**kind, "description": self.parameters[name]}
            if name in self.parameters
            else kind
            for name, kind in properties_of(schema).items()
        }
        return {**schema, "properties": properties} if properties else schema


NO_HELP = ToolHelp()


def project_help_on(tool: Tool) -> ToolHelp:
    """The help on a tool; none on one that a program brings under the name of ours."""
    is_built_in = type(tool).__module__.startswith(_ROOMS)
    return project_help().get(tool.name, NO_HELP) if is_built_in else NO_HELP


@cache
def project_help() -> dict[str, ToolHelp]:
    """The help on each of the built-in tools that have one: `# NAME`, a text, `- PARAMETER: …`."""
    helps: dict[str, ToolHelp] = {}
    for line in load_prompt("tools/in_project").splitlines():
        if line.startswith("# "):
            help = helps[line.removeprefix("# ")] = ToolHelp()
        elif line.startswith("- "):
            name, _, text = line.removeprefix("- ").partition(": ")
            help.parameters[name] = text
        else:
            help.text = f"{help.text} {line}".strip()
    return helps
