"""Fixtures with a workspace and the context of a call in it."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Literal

import pytest

from agent.security.sandbox.bubblewrap import Bubblewrap
from agent.settings import ToolSettings
from agent.tools.base import CallContext, ToolEnvironment
from agent.types import ToolCall
from tests.agent.tools.bubblewrap import installed_bubblewrap


class Listener:
    """Records the progress that a call reports."""

    def __init__(self) -> None:
        self.chunks: list[tuple[str, str]] = []
        self.on_text: Callable[[str], None] = lambda text: None

    def __call__(self, text: str, stream: Literal["stdout", "stderr"]) -> None:
        self.chunks.append((text, stream))
        self.on_text(text)

    @property
    def text(self) -> str:
        return "".join(text for text, _ in self.chunks)


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "workspace"
    folder.mkdir()
    return folder


@pytest.fixture
def listener() -> Listener:
    return Listener()


@pytest.fixture
def call(workspace: Path, listener: Listener) -> CallContext:
    memory = workspace / "memory" / "MEMORY.md"
    return CallContext(
        ToolCall("c1", "t", {}, "{}"),
        ToolEnvironment("s1", workspace, memory, owner=True),
        listener,
    )


@pytest.fixture
def guest(call: CallContext, workspace: Path) -> CallContext:
    """Return the context of a call by a guest."""
    memory = workspace / "memory" / "telegram" / "7" / "MEMORY.md"
    return replace(call, environment=replace(call.environment, memory=memory, owner=False))


@pytest.fixture(scope="session")
def box() -> Bubblewrap:
    return installed_bubblewrap()


@pytest.fixture
def settings() -> ToolSettings:
    return ToolSettings()
