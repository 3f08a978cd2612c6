"""Traces below answers: steps, tools and changed files."""

from agent.providers.usage import UsageTotals
from agent.settings import ToolSettings
from agent.tools.built_in import default_tools
from agent.tools.registry import ToolRegistry
from agent.types import Message, Text, ToolCall, assistant
from gateway.turns.commit import trace_of

PATCH = """*** Begin Patch
*** Update File: src/a.py
@@
-old
+new
*** Add File: src/b.py
+new
*** Delete File: src/c.py
*** End Patch"""


def trace(level: str, *calls: ToolCall, failed: tuple[str, ...] = ()) -> str:
    results = [
        Message("tool", (Text("done"),), tool_call_id=call.id, is_error=call.id in failed)
        for call in calls
    ]
    toolbox = ToolRegistry(default_tools(ToolSettings()))
    messages = [assistant("", calls), *results]
    return trace_of(level, messages, UsageTotals(), toolbox)  # type: ignore[arg-type]


def call(number: str, tool: str, **arguments: object) -> ToolCall:
    return ToolCall(number, tool, arguments, "{}")


def test_summary_counts_the_files_of_a_patch() -> None:
    assert "3 files changed" in trace("summary", call("1", "apply_patch", input=PATCH))


def test_summary_counts_a_file_once_in_any_spelling() -> None:
    edits = [
        call("1", "edit_file", path="src/a.py"),
        call("2", "Write", file_path="./src/a.py"),
        call("3", "apply_patch", input=PATCH),
    ]
    assert "3 files changed" in trace("summary", *edits)


def test_summary_counts_no_file_of_a_failed_call() -> None:
    edits = [call("1", "write_file", path="a"), call("2", "apply_patch", input=PATCH)]
    assert "1 file changed" in trace("summary", *edits, failed=("2",))


def test_full_trace_describes_each_call() -> None:
    lines = trace("full", call("1", "read_file", path="a.py"), call("2", "todo", items=[]))
    assert "- Reading `a.py`" in lines
    assert "- Updating the to-do list" in lines
