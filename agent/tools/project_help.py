"""Additional help on tools for models that work in a project.

The help explains when to use a tool and the meaning of its parameters. A plain conversation omits
it to save tokens.
"""

from dataclasses import dataclass, field
from functools import cache

from agent.prompts import load_prompt
from agent.tools.base import Tool
from agent.tools.schema import properties_of
from agent.types import JsonSchema

# Packages of the built-in tools.
_ROOMS = (
    *(f"agent.tools.{room}." for room in ("assistant", "files", "shell", "web")),
    "agent.code.",
)


@dataclass
class ToolHelp:
    """Help on one tool, and on its parameters by name."""

    text: str = ""
    parameters: dict[str, str] = field(default_factory=dict)

    def describe(self, description: str) -> str:
        """Return a description extended with this text."""
        return f"{description} {self.text}".strip()

    def annotate(self, schema: JsonSchema) -> JsonSchema:
        """Return a schema with these descriptions of its own properties."""
        properties = {
            name: {**kind, "description": self.parameters[name]}
            if name in self.parameters
            else kind
            for name, kind in properties_of(schema).items()
        }
        return {**schema, "properties": properties} if properties else schema


NO_HELP = ToolHelp()


def project_help_on(tool: Tool) -> ToolHelp:
    """Return the help on a tool; empty for a program's tool with the name of a built-in one."""
    is_built_in = type(tool).__module__.startswith(_ROOMS)
    return project_help().get(tool.name, NO_HELP) if is_built_in else NO_HELP


@cache
def project_help() -> dict[str, ToolHelp]:
    """Return the help on each built-in tool that has one: `# NAME`, a text, `- PARAMETER: …`."""
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
