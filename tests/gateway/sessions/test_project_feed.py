"""Project changes between turns, as reported to screens."""

import os
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from agent.events import FileChanged
from gateway.control.client import ControlClient
from gateway.control.server import ControlServer
from tests.gateway.parts import Parts, running

LANE = "cli:local:main"


@pytest.fixture
async def parts(tmp_path: Path) -> AsyncIterator[Parts]:
    async with running(tmp_path, ["fine"]) as parts:
        parts.agent.settings = replace(parts.agent.settings, watch=True)
        yield parts
        await parts.agent.aclose()


@pytest.fixture
async def project(tmp_path: Path, parts: Parts) -> AsyncIterator[Path]:
    """Make a folder whose watch has started."""
    (project := tmp_path.resolve() / "project").mkdir()
    with parts.agent.watches.follow(project) as subscription:
        await subscription.wait_begun()
        yield project


async def test_changes_are_reported_to_another_process(
    parts: Parts, project: Path, tmp_path: Path
) -> None:
    async with ControlServer(parts.service, tmp_path / "kore.sock"):
        client = await ControlClient.connect(tmp_path / "kore.sock")
        assert client is not None
        async with client.watch(LANE, str(project)) as events:
            (project / "a.txt").write_text("a")
            assert await anext(events) == FileChanged(str(project / "a.txt"), "user")


async def test_undecodable_name_reaches_the_screen(
    parts: Parts, project: Path, tmp_path: Path
) -> None:
    name = os.fsdecode(b"caf\xe9\n.txt")
    async with ControlServer(parts.service, tmp_path / "kore.sock"):
        client = await ControlClient.connect(tmp_path / "kore.sock")
        assert client is not None
        async with client.watch(LANE, str(project)) as events:
            (project / name).write_text("a")
            assert await anext(events) == FileChanged(str(project / "caf\ufffd\n.txt"), "user")


async def test_change_by_a_tool_is_attributed_to_the_agent(parts: Parts, project: Path) -> None:
    async with parts.service.watch(LANE, str(project)) as events:
        (project / "a.txt").write_text("a")
        parts.agent.views.record_write("s", project / "a.txt")
        assert await anext(events) == FileChanged(str(project / "a.txt"), "agent")


async def test_running_turn_reports_its_own_changes(parts: Parts, project: Path) -> None:
    async with parts.service.watch(LANE, str(project)) as events:
        with parts.agent.watches.follow(project) as subscription, parts.events.turn(LANE, "s"):
            (project / "a.txt").write_text("a")
            await anext(aiter(subscription))
            # Subscribers of a root are notified in the order of their subscription.
        (project / "b.txt").write_text("b")
        assert await anext(events) == FileChanged(str(project / "b.txt"), "user")


async def test_workspace_and_missing_folders_are_not_watched(parts: Parts, tmp_path: Path) -> None:
    for folder in (parts.workspace, tmp_path / "nothing"):
        async with parts.service.watch(LANE, str(folder)):
            assert parts.agent.watches.watched() == {}


async def test_nothing_is_watched_without_the_setting(parts: Parts, tmp_path: Path) -> None:
    parts.agent.settings = replace(parts.agent.settings, watch=False)
    async with parts.service.watch(LANE, str(tmp_path)):
        assert parts.agent.watches.watched() == {}
