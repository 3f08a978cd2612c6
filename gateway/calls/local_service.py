"""Service of the process that owns the data: every call, bound to the parts of the process."""

from collections.abc import Callable, Mapping
from functools import partial
from types import SimpleNamespace
from typing import Any, cast

from gateway.calls import (
    approvals,
    background,
    editors,
    files,
    jobs,
    messages,
    models,
    operations,
    people,
    plugins,
    sessions,
    settings,
    terminals,
)
from gateway.calls.context import ServiceContext
from gateway.control.declaration import declaration_of
from gateway.control.service import Service

MODULES = (
    messages,
    sessions,
    approvals,
    people,
    jobs,
    background,
    models,
    editors,
    files,
    plugins,
    settings,
    terminals,
    operations,
)


def declared_calls() -> Mapping[str, Callable[..., Any]]:
    """Return the functions of all calls by name, in the order of their declaration."""
    return {
        name: function
        for module in MODULES
        for name, function in vars(module).items()
        if declaration_of(function) is not None and function.__module__ == module.__name__
    }


def local_service(ctx: ServiceContext) -> Service:
    """Return a service whose calls work on the parts of this process.

    `Service` is generated from the same functions, and a house test compares the two.
    """
    calls = {name: partial(function, ctx) for name, function in declared_calls().items()}
    return cast("Service", SimpleNamespace(**calls))
