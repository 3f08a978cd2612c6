"""Every SQL statement of the program, read from its syntax trees, whether a test runs it or not.

A statement's text must be found where it is executed: literals, constants, and names that get a
value from the function or from a caller in the same module. Values from other places are in the
table passed to `collect`.
"""

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from itertools import product
from typing import Any

from tests.house.tree import ROOT, parse, python_files

# Methods of SQLite's connection, inside the store; of a transaction, always named `tx`.
_EXECUTE = ("execute", "executemany")
_TRANSACTION = ("one", "first", "all", "run", "many")
# The agent has no database (pyproject.toml: layers); migrations are separate scripts.
_PACKAGES = ("gateway", "kore")
_SCRIPTS = {"gateway/store/sqlite/migrator.py"}
# Passes on the statements of the repositories.
_PASSED_ON = {"gateway/store/sqlite/transaction.py"}
# PostgreSQL's own statements, which SQLite cannot explain, and the copy, which reads every table in
# full. NOTIFY uses separate connections, which query the server but none of Kore's tables.
_NOT_SQLITE = ("gateway/store/postgres/", "gateway/store/copying.py", "gateway/fanout/")
_Function = ast.FunctionDef | ast.AsyncFunctionDef
# Values of expressions, by the file that contains them.
Given = Mapping[str, Mapping[str, Sequence[str]]]


@dataclass(frozen=True)
class Statement:
    """A text that may be executed at `place`; `site` names the file and the function."""

    place: str
    site: str
    sql: str


class Unreadable(Exception):
    """The text of a statement cannot be determined from the tree."""


def collect(given: Given) -> Iterator[Statement]:
    """Yield all statements. Raise `Unreadable` if a text cannot be determined."""
    for path in python_files(*_PACKAGES):
        file = str(path.relative_to(ROOT))
        if file in _PASSED_ON or file.startswith(_NOT_SQLITE):
            continue
        name = file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        tree = parse(path)
        calls = list(_calls(tree, scripts=file in _SCRIPTS))
        if not calls:
            continue
        reader = _Reader(vars(import_module(name)), tree, _normalized(given.get(file, {})))
        for call, around in calls:
            site = f"{file}:{around[-1].name if around else ''}"
            for sql in sorted(reader.statement(call, around)):
                yield Statement(f"{file}:{call.lineno}", site, sql)


def texts_of(source: str, given: Mapping[str, Sequence[str]]) -> set[str]:
    """Return the statements of a module without imports."""
    tree = ast.parse(source)
    reader = _Reader({}, tree, _normalized(given))
    return {
        sql
        for call, around in _calls(tree, scripts=False)
        for sql in reader.statement(call, around)
    }


def _normalized(given: Mapping[str, Sequence[str]]) -> Mapping[str, Sequence[str]]:
    """Unparse each expression with this Python, because 3.12 chooses other quotes in f-strings."""
    return {ast.unparse(ast.parse(text, mode="eval")): texts for text, texts in given.items()}


def _calls(tree: ast.Module, *, scripts: bool) -> Iterator[tuple[ast.Call, list[_Function]]]:
    """Yield calls that execute SQL, with the functions around each, the innermost last."""
    refused = set(_EXECUTE) if scripts else {"executescript", *_EXECUTE}

    def walk(node: ast.AST, around: list[_Function]) -> Iterator[tuple[ast.Call, list[_Function]]]:
        called = None
        for child in ast.iter_child_nodes(node):
            inner = [*around, child] if isinstance(child, _Function) else around
            if isinstance(child, ast.Call) and _executes(child.func) and child.args:
                yield child, inner
            if isinstance(node, ast.Call) and child is node.func and _executes(child):
                called = child
            is_bare = (
                isinstance(child, ast.Call) and _name(child.func) == "cursor" and not child.args
            )
            is_refused = _name(child) in refused or _is_of_transaction(child)
            if is_bare or (child is not called and is_refused):
                line = getattr(child, "lineno", "?")
                raise Unreadable(f"line {line}: {ast.unparse(child)} is not simply called")
            yield from walk(child, inner)

    return walk(tree, [])


def _executes(node: ast.AST) -> bool:
    return _name(node) in _EXECUTE or _is_of_transaction(node)


def _is_of_transaction(node: ast.AST) -> bool:
    match node:
        case ast.Attribute(value=ast.Name(id="tx"), attr=method):
            return method in _TRANSACTION
    return False


def _name(node: ast.AST) -> str | None:
    return node.attr if isinstance(node, ast.Attribute) else None


@dataclass(frozen=True)
class _Reader:
    names: dict[str, Any]
    tree: ast.Module
    known_texts: Mapping[str, Sequence[str]]

    def statement(self, call: ast.Call, around: Sequence[_Function]) -> set[str]:
        """Return the statements that the call may execute."""
        try:
            return self.read(call.args[0], around)
        except Unreadable as exc:
            text = ast.unparse(call.args[0])
            raise Unreadable(f"line {call.lineno} executes {text}: {exc}") from None

    def read(self, node: ast.expr, around: Sequence[_Function]) -> set[str]:
        """Return all texts that the expression may evaluate to."""
        if (known := self.known_texts.get(ast.unparse(node))) is not None:
            return set(known)
        match node:
            case ast.Constant(value=str(text)):
                return {text}
            case ast.JoinedStr(values=values):
                return self._joined(values, around)
            case ast.FormattedValue(value=value):
                return self.read(value, around)
            case ast.BinOp(left=left, op=ast.Add(), right=right):
                return self._joined([left, right], around)
            case ast.IfExp(body=body, orelse=orelse):
                return self.read(body, around) | self.read(orelse, around)
            case ast.Name(id=name) if around and (texts := self._local(name, around)):
                return texts
        return {str(self._value(node))}

    def _joined(self, parts: Sequence[ast.expr], around: Sequence[_Function]) -> set[str]:
        return {"".join(texts) for texts in product(*(self.read(part, around) for part in parts))}

    def _value(self, node: ast.expr) -> object:
        """Return the value of a constant expression of the module."""
        try:
            value = eval(ast.unparse(node), self.names)
        except Exception as exc:  # noqa: BLE001 - told as what it is
            raise Unreadable(f"{ast.unparse(node)}: {exc}") from None
        if not isinstance(value, str | int):
            raise Unreadable(f"{ast.unparse(node)} is no text")
        return value

    def _local(self, name: str, around: Sequence[_Function]) -> set[str]:
        """Return the values of a function's local name; empty for a name of the module."""
        function, outer = around[-1], around[:-1]
        texts: set[str] = set()
        for node in ast.walk(function):
            match node:
                case ast.Assign(targets=[ast.Name(id=target)], value=value) if target == name:
                    texts |= self.read(value, around)
                case ast.For(target=ast.Name(id=target), iter=ast.Tuple(elts=items)) if (
                    target == name
                ):
                    texts |= {text for item in items for text in self._item(item, around)}
                case ast.For(target=ast.Tuple(elts=targets), iter=ast.Tuple(elts=rows)):
                    names = [ast.unparse(target) for target in targets]
                    for row in rows if name in names else ():
                        assert isinstance(row, ast.Tuple)
                        texts |= self.read(row.elts[names.index(name)], around)
        parameters = [arg.arg for arg in function.args.args]
        if name in parameters:
            texts |= self._passed(function.name, name, parameters.index(name))
        return texts or (self._local(name, outer) if outer else set())

    def _item(self, item: ast.expr, around: Sequence[_Function]) -> set[str]:
        """Return the values of a tuple's item; `*(f"…{x}" for x in (…))` has several."""
        match item:
            case ast.Starred(
                value=ast.GeneratorExp(
                    elt=elt, generators=[ast.comprehension(target=target, iter=ast.Tuple(elts=of))]
                )
            ):
                values = [text for entry in of for text in self.read(entry, around)]
                inner = _Reader(
                    self.names, self.tree, {**self.known_texts, ast.unparse(target): values}
                )
                return inner.read(elt, around)
        return self.read(item, around)

    def _passed(self, function: str, name: str, position: int) -> set[str]:
        """Return the values that the module's own calls pass for a parameter."""
        texts: set[str] = set()
        callers = [node for node in ast.walk(self.tree) if isinstance(node, _Function)]
        for caller in callers:
            for node in ast.walk(caller):
                if isinstance(node, ast.Call) and ast.unparse(node.func) == function:
                    named = [keyword.value for keyword in node.keywords if keyword.arg == name]
                    args = named or node.args[position : position + 1]
                    texts |= {text for arg in args for text in self.read(arg, [caller])}
        return texts
