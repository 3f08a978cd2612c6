"""Public names of `import kore`, and the cost of the import."""

import inspect
import subprocess
import sys

import kore
from tests.house.tree import ROOT

EXPORTS = [
    "Agent",
    "AgentSettings",
    "Answer",
    "Answered",
    "ApprovalRequest",
    "Approver",
    "CallContext",
    "ConfigError",
    "Decision",
    "Definition",
    "Elicitation",
    "ElicitationAnswer",
    "Event",
    "GoalLimits",
    "GoalResult",
    "GuardrailTripped",
    "Handoff",
    "History",
    "Hooks",
    "Image",
    "ImageFile",
    "ImageUrl",
    "InputGuardrail",
    "InputGuardrailTripped",
    "JsonlHistory",
    "KoreError",
    "LspServerSettings",
    "LspSettings",
    "McpServerSettings",
    "McpSettings",
    "MemoryHistory",
    "Message",
    "ModelConfig",
    "ModelRequest",
    "ModelSettings",
    "Models",
    "OutputGuardrail",
    "OutputGuardrailTripped",
    "ParallelResults",
    "Permissions",
    "Policy",
    "PolicyDenied",
    "Provider",
    "ProviderError",
    "Result",
    "RunContext",
    "SubagentLimits",
    "Text",
    "Tool",
    "ToolCall",
    "ToolCaller",
    "ToolError",
    "ToolRequest",
    "ToolResult",
    "ToolStep",
    "Usage",
    "__version__",
    "events",
    "input_guardrail",
    "list_providers",
    "output_guardrail",
    "parallel",
    "register_provider",
    "remove_all_tools",
    "run",
    "run_sync",
    "stream",
    "tool",
]
HEAVY = (
    *("aiohttp", "openai", "pydantic", "sqlite3", "telegram", "lxml", "re2", "rich"),
    *("docstring_parser", "pathspec"),
)


def test_library_exports_exactly_these_names() -> None:
    assert kore.__all__ == EXPORTS
    assert sorted(kore.__all__) == EXPORTS
    # These names exist after their module was imported.
    public = {name for name in vars(kore) if not name.startswith("_")} - {"client", "otel"}
    assert public == {name for name in EXPORTS if not name.startswith("_")}


def test_every_export_is_documented() -> None:
    offered = {name: getattr(kore, name) for name in EXPORTS}
    undocumented = [
        name
        for name, value in offered.items()
        if (inspect.isclass(value) or inspect.isroutine(value)) and not value.__doc__
    ]
    assert undocumented == []


def test_importing_the_library_loads_nothing_heavy() -> None:
    code = f"import kore, sys; print([name for name in {HEAVY} if name in sys.modules])"
    ran = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert ran.stdout.strip() == "[]"
