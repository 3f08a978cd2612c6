"""The repository for the house tests: its files, and its Python code as syntax trees."""

import ast
import gc
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = ("agent", "gateway", "kore")


def repository_files() -> list[Path]:
    """Return every file on disk that git tracks or would track."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    ).stdout.decode()
    paths = (ROOT / name for name in listed.split("\0") if name)
    return sorted({path for path in paths if path.is_file()})


def python_files(*folders: str) -> list[Path]:
    return sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))


@cache
def parse(path: Path) -> ast.Module:
    """Return a file's syntax tree, cached because parsing is half of the tests' time."""
    # Garbage collection during parsing takes three times as long as parsing.
    gc.disable()
    try:
        return ast.parse(read(path), str(path))
    finally:
        gc.enable()


@cache
def read(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def statements(tree: ast.Module) -> Iterator[ast.stmt | ast.ExceptHandler | ast.match_case]:
    """Yield statements and their branches in the order of the text, without nested expressions."""
    left: list[ast.stmt | ast.ExceptHandler | ast.match_case] = [*reversed(tree.body)]
    while left:
        node = left.pop()
        yield node
        for name in ("finalbody", "orelse", "cases", "handlers", "body"):
            left += reversed(getattr(node, name, ()))


def place(path: Path, node: ast.stmt | ast.expr | ast.ExceptHandler) -> str:
    return f"{path.relative_to(ROOT)}:{node.lineno}"


def docstrings(tree: ast.Module) -> Iterator[ast.Constant]:
    """Yield docstrings of modules, classes and functions, and strings that document attributes."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            yield node.value
