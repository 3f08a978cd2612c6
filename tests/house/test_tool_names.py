"""Names of tools: defined by the tools, listed and compared by no other module."""

import ast
from collections.abc import Iterator

import pytest

from agent.turn.tool_catalog import known_tools
from tests.house.tree import PACKAGES, ROOT, parse, python_files

# Tool names with other meanings: alone they are not a table of tools.
OTHER_MEANINGS = {
    "glob": "an argument of searches",
    "lsp": "a section of the settings",
    "task": "a model profile and a table of the store",
    "todo": "a field of a summary",
    "undo": "a direction of changes and a chat command",
}
OWN_PACKAGE = "agent/tools/"
PLACES = (ast.Set, ast.List, ast.Tuple, ast.Dict, ast.Compare, ast.MatchValue)


def tool_names_in(tree: ast.AST, names: frozenset[str]) -> Iterator[tuple[int, str]]:
    """Yield the lines where collections, keys or comparisons contain names of tools."""
    for node in ast.walk(tree):
        if not isinstance(node, PLACES):
            continue
        match node:
            case ast.Set(elts=parts) | ast.List(elts=parts) | ast.Tuple(elts=parts):
                pass
            case ast.Dict(keys=keys):
                parts = [key for key in keys if key is not None]
            case ast.Compare(left=left, comparators=others):
                parts = [left, *others]
            case ast.MatchValue(value=value):
                parts = [value]
        literals = {part.value for part in parts if isinstance(part, ast.Constant)}
        tools = {literal for literal in literals if literal in names}
        if len(tools) > 1 or not tools <= OTHER_MEANINGS.keys():
            yield from ((node.lineno, str(tool)) for tool in sorted(tools))


def test_only_the_tools_list_tool_names() -> None:
    names = frozenset(known_tools().names)
    violations = {
        f"{path.relative_to(ROOT)}:{line} {name}"
        for path in python_files(*PACKAGES)
        if not path.is_relative_to(ROOT / OWN_PACKAGE)
        for line, name in tool_names_in(parse(path), names)
    }
    assert violations == set(), "read the traits instead: agent/tools/traits.py"


@pytest.mark.parametrize(
    "table",
    [
        'EDITING = frozenset({"edit_file", "deploy"})',
        'KINDS = {"exec": "execute"}',
        'KINDS = dict.fromkeys(("lsp", "task"), "other")',
        'is_command = call.name == "exec"',
        'match call.name:\n    case "web_fetch":\n        pass',
    ],
)
def test_table_of_tool_names_is_noticed(table: str) -> None:
    assert list(tool_names_in(ast.parse(table), frozenset(known_tools().names)))


@pytest.mark.parametrize("code", ['role.rule("exec")', 'Direction = Literal["undo", "redo"]'])
def test_single_tool_name_is_accepted(code: str) -> None:
    assert not list(tool_names_in(ast.parse(code), frozenset(known_tools().names)))
