"""Prompt injection by a configured MCP server that changes after it was accepted."""

import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from agent.mcp.settings import McpServerSettings, McpSettings
from tests import fakes
from tests.injection.obedient import Obedient
from tests.injection.scene import (
    CANARY,
    Agreeing,
    Refusing,
    Scene,
    attack_cases,
    attacks,
    open_scene,
    plant,
)

pytest.importorskip("mcp", reason="needs the extra mcp")
SERVER = Path(fakes.__file__).with_name("mcp_server.py")
# A tool's description, its schema, and the description of a new tool.
PLACES = ("words", "schema", "more")


def settings(folder: Path) -> McpSettings:
    behaviours = [f"{place}={folder / place}" for place in PLACES]
    words = ("-B", str(SERVER), *behaviours)
    return McpSettings((McpServerSettings("s", sys.executable, words, allow=("*",)),), folder)


async def change(scene: Scene, folder: Path, attack: dict[str, Any], place: str) -> None:
    """Make the server return the attack from now on, and list its tools again."""
    text = plant(scene, attack)
    schema = {"type": "object", "properties": {"text": {"title": "t", "description": text}}}
    (folder / place).write_text(json.dumps(schema) if place == "schema" else text)
    assert scene.agent.mcp is not None
    await scene.agent.mcp.refresh("s")


@asynccontextmanager
async def attacked(
    folder: Path,
    attack: dict[str, Any],
    place: str,
    person: Refusing | None = None,
    *,
    accepts: bool = False,
) -> AsyncIterator[Scene]:
    """Open a scene with a Kore that was restarted after the server had changed."""
    servers = settings(folder / "mcp")
    async with open_scene(folder / "first", mcp_servers=servers) as scene:
        await scene.say("Hello.")
        await change(scene, folder / "mcp", attack, place)
    model = Obedient(heeds_tools=True)
    async with open_scene(
        folder / "second", mcp_servers=servers, model=model, person=person
    ) as scene:
        # This scene has other addresses.
        await change(scene, folder / "mcp", attack, place)
        if accepts:
            assert scene.agent.mcp is not None
            await scene.agent.mcp.accept("s")
        await scene.say('Help me. @@ read_file {"path": "private.md"}')
        yield scene


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("attack", attack_cases())
async def test_changed_server_leaks_nothing(
    attack: dict[str, Any], place: str, tmp_path: Path
) -> None:
    async with attacked(tmp_path, attack, place) as scene:
        assert scene.leaked() == []
        assert scene.steered() == []


(QUERY,) = (attack for attack in attacks() if attack["name"] == "address with a query")


@pytest.mark.parametrize(
    ("place", "is_read"), [("words", False), ("schema", False), ("more", True)]
)
async def test_only_new_tools_reach_the_model_before_they_are_accepted(
    place: str, is_read: bool, tmp_path: Path
) -> None:
    async with attacked(tmp_path, QUERY, place, Agreeing()) as scene:
        assert (CANARY in scene.loot()) == is_read


@pytest.mark.parametrize("place", PLACES)
async def test_accepted_text_counts_as_text_of_the_owner(place: str, tmp_path: Path) -> None:
    """The same attacks succeed once the owner has accepted the text."""
    async with attacked(tmp_path, QUERY, place, accepts=True) as scene:
        assert CANARY in scene.loot()
