"""A file that crashes the parser of its language, in the real program."""

import json
from pathlib import Path
from typing import Any

from tests.gateway.cli.kore import kore

OFFLINE = {"KORE_AGENT_MODEL": "offline/echo"}
# Overflows the stack of tree-sitter-yaml 0.7.2.
DEADLY_YAML = "- " * 300 + "a"


def call_tool(home: Path, tool: str, **arguments: Any) -> str:
    """Make the offline model call a tool, and return its answer."""
    words = f"!tool {tool} {json.dumps(arguments)}"
    result = kore("agent", "-y", "-m", words, home=home, environ=OFFLINE)
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_file_that_breaks_its_grammar_is_written_unchecked(tmp_path: Path) -> None:
    home = tmp_path / "h"
    assert "Wrote 601 bytes" in call_tool(home, "write_file", path="a.yaml", content=DEADLY_YAML)
    (result,) = tmp_path.rglob("a.yaml")
    assert result.read_text() == DEADLY_YAML
    answer = call_tool(home, "edit_file", path="a.yaml", old_text="- a", new_text="- b")
    assert result.read_text() == DEADLY_YAML.replace("- a", "- b"), answer
