"""Texts for the model are in files, not in code."""

import ast
from collections.abc import Iterator

from tests.house.tree import docstrings, parse, place, python_files

LONGEST_LITERAL = 200


def literal_length(node: ast.AST) -> int:
    """Return the number of literal characters in a plain or formatted string."""
    if isinstance(node, ast.Constant):
        return len(node.value) if isinstance(node.value, str) else 0
    if isinstance(node, ast.JoinedStr):
        return sum(literal_length(part) for part in node.values)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return literal_length(node.left) + literal_length(node.right)
    return 0


def patterns(tree: ast.Module) -> Iterator[ast.expr]:
    """Yield arguments of `re.compile` and strings that begin with flags of a pattern.

    They may be long, but the model never reads them.
    """
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "re.compile":
            yield from node.args
        if isinstance(node, ast.Constant) and str(node.value).startswith("(?i)"):
            yield node


def long_literals(tree: ast.Module) -> list[ast.expr]:
    exempt = {id(node) for node in [*docstrings(tree), *patterns(tree)]}
    return [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant | ast.JoinedStr | ast.BinOp)
        and id(node) not in exempt
        and literal_length(node) > LONGEST_LITERAL
    ]


def test_core_has_no_long_string_literals() -> None:
    texts = [
        f"{place(path, node)}: {literal_length(node)} characters; move the text into a .md file"
        for path in python_files("agent")
        for node in long_literals(parse(path))
    ]
    assert texts == []


def test_composed_long_literal_is_noticed() -> None:
    half = "x" * 120
    assert long_literals(ast.parse(f"a = '{half}' '{half}'"))
    assert long_literals(ast.parse(f"a = '{half}' + '{half}'"))
    assert long_literals(ast.parse(f"a = f'{half}{{1}}{half}'"))
    assert not long_literals(ast.parse(f"def f():\n    '''{half}{half}'''"))
    assert not long_literals(ast.parse(f"a = re.compile('{half}{half}')"))
    assert not long_literals(ast.parse(f"a = '(?i)' '{half}{half}'"))
