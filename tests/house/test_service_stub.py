"""The generated `Service` has every function that is declared as a call."""

import ast

from gateway.calls.local_service import MODULES, declared_calls
from tests.house.service_stub import FILE, service_stub
from tests.house.tree import ROOT


def test_service_is_current() -> None:
    assert FILE.read_text("utf-8") == service_stub(), "run `make schema`"


def test_every_declared_call_is_in_the_service() -> None:
    declared = {
        node.name
        for path in (ROOT / "gateway/calls").glob("*.py")
        for node in ast.parse(path.read_text("utf-8")).body
        if isinstance(node, ast.AsyncFunctionDef)
        and any(ast.unparse(part).startswith("call(") for part in node.decorator_list)
    }
    assert declared == set(declared_calls()), f"is its module one of {MODULES}?"
