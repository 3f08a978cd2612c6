"""The numbers in docs/context-budget.md match the code."""

import re
from pathlib import Path

import pytest

from agent.context import token_budget
from agent.context.compaction import compactor, person_words, summarizer
from agent.context.project import context, directory_tree
from agent.context.token_budget import budget_for
from agent.security.taint import prompt_file
from agent.settings import ToolSettings

PAGE = (Path(__file__).parents[2] / "docs" / "context-budget.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("row", "number"),
    [
        ("the workspace's files", f"{prompt_file.MAX_CHARS:,} characters each"),
        ("AGENTS.md of a project", f"{prompt_file.MAX_CHARS:,} characters together"),
        ("the project's tree", f"about {directory_tree.MAX_TREE_TOKENS} tokens"),
        ("README and project files", f"{context.MAX_OVERVIEW_TOKENS:,} tokens"),
        ("files that you attach", f"{context.FILE_SHARE:.0%}"),
        ("these and files that the model has read", f"{token_budget.FOCUS_SHARE:.0%}"),
        ("one tool result", f"{ToolSettings().output_limit_bytes:,} bytes"),
        ("one tool result", f"`read_file` {ToolSettings().read_limit_bytes:,}"),
        ("the conversation with all of the above", f"{token_budget.FULL:.0%}"),
        ("the conversation with all of the above", f"{compactor.GOAL:.0%}"),
        ("the summary", f"{summarizer.MAX_SUMMARY_TOKENS:,} tokens"),
        ("what people wrote", f"{person_words.MAX_TOKENS:,} tokens"),
        ("reserved for the answer", f"{budget_for(10_000, '', ()).reserve / 10_000:.0%}"),
        ("reserved for the answer", f"{budget_for(1_000_000, '', ()).reserve:,} tokens"),
    ],
)
def test_documented_limits_match_the_code(row: str, number: str) -> None:
    (line,) = re.findall(rf"^\| {re.escape(row)}.*$", PAGE, re.MULTILINE)
    assert number.replace("%", " %") in line
