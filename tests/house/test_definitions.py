"""Each name is defined once, and docstrings name existing classes."""

import ast
import builtins
import re
from collections import Counter
from collections.abc import Iterable, Iterator

from tests.house.tree import PACKAGES, ROOT, docstrings, parse, place, python_files, read

_ALL = (*PACKAGES, "bench", "evals", "examples", "tests")
_CLASS_IN_TEXT = re.compile(r"`(?:[a-z_]+\.)*([A-Z][a-z]+[A-Za-z]*)(?:\.\w+)?(?:\(\))?`")
_DEFINITION = re.compile(r"^ *(?:class|from \S+ import) (.*)", re.MULTILINE)
_ASSIGNED = re.compile(r"^_*[A-Z].*=(?=[^=])", re.MULTILINE)
_CONSTANT = re.compile(r"\b[A-Z_][A-Z0-9_]*\b")
_WORD = re.compile(r"\w+")
# Names from the formats of other programs, and examples.
FOREIGN = {
    "Class",
    "InitVar",
    "LocationLink",
    "ProtectKernelTunables",
    "ProtectProc",
    "RestrictNamespaces",
    "WorkspaceEdit",
}


def repeated_constants(body: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield assignments to an upper-case name that the same body has assigned before."""
    counts = Counter[str]()
    for node in body:
        targets: list[ast.expr] = node.targets if isinstance(node, ast.Assign) else []
        if isinstance(node, ast.AnnAssign) and node.value is not None:
            targets = [node.target]
        names = {target.id for target in targets if isinstance(target, ast.Name)}
        constants = {name for name in names if name.isupper()}
        if any(counts[name] for name in constants):
            yield node
        counts.update(constants)


def _names(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.ClassDef(name=name) | ast.Name(id=name) | ast.Attribute(attr=name):
                yield name
            case ast.alias(name=name, asname=alias):
                yield alias or name.rpartition(".")[2]
            case ast.Constant(value=str() as text) if text.isidentifier():
                yield text
            case _:
                pass


def _may_repeat_constants(text: str) -> bool:
    """Return whether a file might assign a constant twice. Parsing all files takes much longer."""
    names = [name for line in _ASSIGNED.findall(text) for name in _CONSTANT.findall(line)]
    return len(names) > len(set(names))


def test_constants_are_assigned_once() -> None:
    violations = [
        place(path, node)
        for path in python_files(*_ALL)
        if _may_repeat_constants(read(path))
        for node in repeated_constants(parse(path).body)
    ]
    assert violations == []


def test_docstrings_name_classes_that_exist() -> None:
    texts = {path: read(path) for path in python_files(*_ALL)}
    lines = {line for text in texts.values() for line in _DEFINITION.findall(text)}
    defined = {name for line in lines for name in _WORD.findall(line)}
    defined |= FOREIGN | set(dir(builtins))
    unknown = {
        path: names
        for path, text in texts.items()
        if (names := set(_CLASS_IN_TEXT.findall(text)) - defined)
    }
    unknown_names = set().union(*unknown.values())
    # Parse only files that may use one of the names, for example of a library.
    used = {
        name
        for path, text in texts.items()
        if unknown_names & set(_WORD.findall(text))
        for name in _names(parse(path))
    }
    violations = {
        f"{path.relative_to(ROOT)}: {name}"
        for path, names in unknown.items()
        for docstring in docstrings(parse(path))
        for name in _CLASS_IN_TEXT.findall(str(docstring.value))
        if name in names - used
    }
    assert violations == set()


def test_repeated_constants_are_noticed() -> None:
    assert list(repeated_constants(ast.parse("A = 1\nA = 2").body))
    assert list(repeated_constants(ast.parse("A: int = 1\nA: int = 2").body))
    assert not list(repeated_constants(ast.parse("A = 1\nB = 2").body))
