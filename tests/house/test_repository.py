"""House rules about the text of the repository's files."""

import ast
import re
from collections.abc import Iterator

import pytest

from tests.house.tree import (
    PACKAGES,
    ROOT,
    parse,
    place,
    python_files,
    repository_files,
    statements,
)

# The tool runner and the lane; a send, where a bug counts as an unclear result; and the database's
# thread, which passes every error to its caller.
BROAD_EXCEPTS = {
    "agent/mcp/connection.py",
    "agent/security/policy/engine.py",
    "agent/tools/authorization.py",
    "agent/tools/runner.py",
    "gateway/bus/bus.py",
    "gateway/delivery/sender.py",
    "gateway/store/postgres/engine.py",
    "gateway/store/sqlite/engine.py",
}

# Participles describe the origin of a value, not its meaning.
VAGUE_NAMES = {
    "asked",
    "chosen",
    "found",
    "given",
    "glimpse",
    "gone",
    "heard",
    "held",
    "kept",
    "known",
    "meant",
    "named",
    "noted",
    "said",
    "seen",
    "shown",
    "spoken",
    "told",
    "wanted",
    "written",
}
VAGUE_VALUES = VAGUE_NAMES | {"one"}
# Fields of events are a public format; the others are pending renames.
VAGUE_FIELDS_ALLOWED = {
    "Compacted.kept",
    # Placeholders for any field.
    "Point.seen",
    "Twin.seen",
    "ModelPool.known",
    "TurnRequest.known",
}

# A test is named by its subject and behaviour: `test_refused_write_names_the_rule`.
CLAUSE_NAMED_TEST = re.compile(
    r"test_(?:what|who|whoever|whatever|how|where|whether|which|when|those|that|it|they|nobody"
    r"|somebody|a|an|the)_"
)

TEST_MODULE = re.compile(r"tests\.(?:.*\.)?test_\w+")

# Split in two, so that this file does not contain the forbidden text.
REGISTRY_ADDRESSES = (
    "py" + "pi.org",
    "python" + "hosted.org",
    "npm" + "js.org",
    "proxy.go" + "lang.org",
    "crates" + ".io",
    "ruby" + "gems.org",
    "deb." + "debian.org",
    "index-" + "url",
    "index_" + "url",
)


def broad_handlers(tree: ast.Module) -> Iterator[ast.ExceptHandler]:
    """Yield handlers that catch every exception and do not re-raise it."""
    for node in statements(tree):
        if not isinstance(node, ast.ExceptHandler):
            continue
        last = node.body[-1]
        if isinstance(last, ast.Raise) and last.exc is None:
            continue
        caught = node.type.elts if isinstance(node.type, ast.Tuple) else [node.type]
        names = {name.id for name in caught if isinstance(name, ast.Name)}
        if node.type is None or names & {"Exception", "BaseException"}:
            yield node


def mock_imports(tree: ast.Module) -> Iterator[ast.stmt]:
    for node in statements(tree):
        if isinstance(node, ast.ImportFrom):
            module = node.module or ""
            names = [module, *(f"{module}.{alias.name}" for alias in node.names)]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            continue
        if any(name in {"mock", "unittest.mock", "pytest_mock"} for name in names):
            yield node


def imports_of_tests(tree: ast.Module) -> Iterator[ast.stmt]:
    """Yield imports from modules of tests."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            module = node.module or ""
            names = [module, *(f"{module}.{alias.name}" for alias in node.names)]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            continue
        if any(TEST_MODULE.fullmatch(name) for name in names):
            yield node


def vague_values(tree: ast.Module) -> Iterator[ast.expr | ast.stmt | ast.arg]:
    """Yield parameters, local values and functions named by a participle."""
    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        if not isinstance(function, ast.Lambda) and function.name.strip("_") in VAGUE_NAMES:
            yield function
        for node in ast.walk(function):
            if isinstance(node, ast.arg) and node.arg.strip("_") in VAGUE_VALUES:
                yield node
            if not isinstance(node, ast.Name) or not isinstance(node.ctx, ast.Store):
                continue
            if node.id.strip("_") in VAGUE_VALUES:
                yield node


def vague_functions(tree: ast.Module) -> Iterator[ast.stmt]:
    """Yield functions, methods and fixtures named by a participle."""
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                if name.strip("_") in VAGUE_NAMES:
                    yield node


def clause_named_tests(tree: ast.Module) -> Iterator[ast.stmt]:
    """Yield tests whose name begins with an article, a pronoun or an interrogative."""
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                if CLAUSE_NAMED_TEST.match(name):
                    yield node


def vague_fields(tree: ast.Module) -> Iterator[tuple[str, ast.expr | ast.stmt]]:
    """Yield fields of records and attributes named by a participle, as `Class.field`."""
    for owner in ast.walk(tree):
        if not isinstance(owner, ast.ClassDef):
            continue
        for field in owner.body:
            match field:
                case ast.AnnAssign(target=ast.Name(id=name)) if name.strip("_") in VAGUE_NAMES:
                    yield f"{owner.name}.{name}", field
        for node in ast.walk(owner):
            match node:
                case ast.Attribute(attr=name, ctx=ast.Store()) if name.strip("_") in VAGUE_NAMES:
                    yield f"{owner.name}.{name}", node


def renumbered_copies(tree: ast.Module) -> Iterator[ast.expr]:
    """Yield copies of a message with a new `event_id` that retain album, files and quote."""
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Name(id="replace") | ast.Attribute(attr="replace")):
                if any(keyword.arg == "event_id" for keyword in node.keywords):
                    yield node


@pytest.mark.programs("git")
def test_files_name_no_package_registry() -> None:
    violations = [
        f"{path.relative_to(ROOT)} names {address}"
        for path in repository_files()
        for address in REGISTRY_ADDRESSES
        if address in path.read_bytes().decode(errors="replace").lower()
    ]
    assert violations == []


def test_only_listed_modules_catch_every_exception() -> None:
    violations = [
        str(path.relative_to(ROOT))
        for path in python_files(*PACKAGES)
        for _ in broad_handlers(parse(path))
    ]
    assert sorted(violations) == sorted(BROAD_EXCEPTS)


def test_tests_do_not_mock_our_own_code() -> None:
    violations = [
        place(path, node)
        for path in python_files("tests", "bench", *PACKAGES)
        for node in mock_imports(parse(path))
    ]
    assert violations == []


def test_helpers_are_not_in_modules_of_tests() -> None:
    violations = [
        place(path, node)
        for path in python_files("tests", "bench", "pages")
        for node in imports_of_tests(parse(path))
    ]
    assert violations == []


def test_new_messages_are_derived_and_not_copied() -> None:
    violations = [
        f"{place(path, node)}: use InboundMessage.derive"
        for path in python_files(*PACKAGES)
        for node in renumbered_copies(parse(path))
    ]
    assert violations == []


def test_violations_of_the_code_rules_are_noticed() -> None:
    assert list(renumbered_copies(ast.parse("replace(cause, event_id='2', content='x')")))
    assert list(renumbered_copies(ast.parse("dataclasses.replace(cause, event_id='2')")))
    assert not list(renumbered_copies(ast.parse("replace(message, content='x')")))
    assert list(broad_handlers(ast.parse("try: ...\nexcept (OSError, Exception): pass")))
    assert list(broad_handlers(ast.parse("try: ...\nexcept: pass")))
    assert not list(broad_handlers(ast.parse("try: ...\nexcept BaseException: raise")))
    assert list(mock_imports(ast.parse("from unittest import mock")))
    assert list(vague_values(ast.parse("def f(): found = 1")))
    assert list(vague_values(ast.parse("def _told(): ...")))
    assert list(vague_values(ast.parse("lambda wanted: 1")))
    assert list(vague_values(ast.parse("def f(items): return [one for one in items]")))
    assert not list(vague_values(ast.parse("class Rows:\n def one(self): ...")))
    assert list(vague_functions(ast.parse("async def told(): ...")))
    assert list(clause_named_tests(ast.parse("def test_what_is_read(): ...")))
    assert list(clause_named_tests(ast.parse("async def test_a_write_is_undone(): ...")))
    assert not list(clause_named_tests(ast.parse("def test_write_is_undone(): ...")))
    assert list(vague_fields(ast.parse("class Event:\n kept: int")))
    assert list(vague_fields(ast.parse("class A:\n def f(self): self._told = 1")))
    assert not list(vague_fields(ast.parse("class A:\n def f(self): return self.told")))
    assert list(mock_imports(ast.parse("import unittest.mock")))
    assert list(imports_of_tests(ast.parse("from tests.house.test_docs import flags")))
    assert list(imports_of_tests(ast.parse("from tests.house import test_docs")))
    assert not list(imports_of_tests(ast.parse("from tests.house.cli_flags import flags")))


def test_class_name_appears_once() -> None:
    places: dict[str, list[str]] = {}
    for path in python_files(*PACKAGES):
        for node in statements(parse(path)):
            if isinstance(node, ast.ClassDef):
                places.setdefault(node.name, []).append(place(path, node))
    assert {name: where for name, where in places.items() if len(where) > 1} == {}


def test_values_are_named_by_what_they_are() -> None:
    violations = {
        place(path, node) for path in python_files(*PACKAGES) for node in vague_values(parse(path))
    }
    assert violations == set()


def test_test_helpers_are_named_by_what_they_do() -> None:
    violations = {
        place(path, node)
        for path in python_files("tests", "bench")
        for node in vague_functions(parse(path))
    }
    assert violations == set()


def test_tests_are_named_by_subject_and_behaviour() -> None:
    violations = {
        place(path, node)
        for path in python_files("tests")
        for node in clause_named_tests(parse(path))
    }
    assert violations == set()


def test_fields_are_named_by_what_they_hold() -> None:
    places = {
        name: place(path, node)
        for path in python_files("tests", "bench", *PACKAGES)
        for name, node in vague_fields(parse(path))
    }
    assert {name: places[name] for name in places.keys() - VAGUE_FIELDS_ALLOWED} == {}
    assert places.keys() >= VAGUE_FIELDS_ALLOWED


_HTTPX_CLIENTS = re.compile(r"(?:AsyncClient|DefaultAioHttpClient|DefaultAsyncHttpxClient)")


def test_httpx_clients_share_the_configured_certificates() -> None:
    clients: dict[str, list[str]] = {}
    for path in python_files(*PACKAGES):
        if not _HTTPX_CLIENTS.search(path.read_text("utf-8")):
            continue
        for node in ast.walk(parse(path)):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and _HTTPX_CLIENTS.fullmatch(node.func.attr)
            ):
                verify = [ast.unparse(word.value) for word in node.keywords if word.arg == "verify"]
                clients[place(path, node)] = verify
    assert len(clients) == 3
    assert all(verify == ["trust_store()"] for verify in clients.values()), clients
