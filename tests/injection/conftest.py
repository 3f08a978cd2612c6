"""Sandbox for commands of the injection suite."""

import os
from typing import cast

import pytest

from agent.errors import ConfigError
from agent.security.sandbox.base import Sandbox
from agent.security.sandbox.selector import SandboxName, SandboxOptions, select_sandbox

# `make injection` runs the suite once with each sandbox.
SANDBOX = cast(SandboxName, os.environ.get("KORE_TEST_SANDBOX", "bwrap"))


@pytest.fixture(scope="session")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Sandbox:
    try:
        return select_sandbox(SandboxOptions(SANDBOX), tmp_path_factory.mktemp("home")).sandbox
    except ConfigError as exc:
        pytest.skip(str(exc))


@pytest.fixture
def confining(sandbox: Sandbox) -> Sandbox:
    """A sandbox that commands cannot leave."""
    if not sandbox.confines:
        pytest.skip("commands are not confined without a sandbox")
    return sandbox


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Run tests without sandboxed commands only once instead of once per sandbox."""
    if SANDBOX == "bwrap":
        return
    result = [item for item in items if "sandbox" in getattr(item, "fixturenames", ())]
    config.hook.pytest_deselected(items=[item for item in items if item not in result])
    items[:] = result
