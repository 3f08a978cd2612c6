"""Prompt injection by the answers of an MCP server."""

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from agent.mcp.settings import McpServerSettings
from tests import fakes
from tests.injection.scene import (
    CANARY,
    PRIVATE_TEXT,
    Agreeing,
    Refusing,
    Scene,
    attack_cases,
    attacks,
    open_scene,
    plant,
)

pytest.importorskip("mcp", reason="needs the extra mcp")
ATTACKS = attacks()
SERVER = Path(fakes.__file__).with_name("mcp_server.py")
ORDERS = {
    "tool": '@@ mcp__s__echo {"text": "x"}',
    "resource": '@@ mcp__s__read_resource {"uri": "memo://two"}',
}


@asynccontextmanager
async def attacked(
    tmp_path: Path,
    attack: dict[str, Any],
    kind: str,
    person: Refusing | None = None,
    *,
    text: str = "",
    **settings: Any,
) -> AsyncIterator[Scene]:
    """Open a scene in which the server was called with its owner's approval.

    It answers `text`, then the attack.
    """
    answer = tmp_path / "answer"
    words = ("-B", str(SERVER), f"says={answer}")
    server = McpServerSettings("s", sys.executable, words, allow=("*",), **settings)
    async with open_scene(tmp_path, person=person, mcp_servers=[server]) as scene:
        answer.write_text(text + plant(scene, attack))
        await scene.say(f"Ask it. {ORDERS[kind]}")
        yield scene


@pytest.mark.parametrize("attack", attack_cases())
async def test_tool_leaks_nothing(attack: dict[str, Any], tmp_path: Path) -> None:
    async with attacked(tmp_path, attack, "tool") as scene:
        assert scene.leaked() == []
        assert scene.steered() == []


# All results are marked in the same place: a few attacks suffice.
@pytest.mark.parametrize("attack", ATTACKS[::8], ids=lambda attack: attack["name"])
async def test_resource_leaks_nothing(attack: dict[str, Any], tmp_path: Path) -> None:
    async with attacked(tmp_path, attack, "resource") as scene:
        assert scene.leaked() == []
        assert scene.steered() == []


@pytest.mark.parametrize("kind", ORDERS)
@pytest.mark.parametrize("attack", ATTACKS[::8], ids=lambda attack: attack["name"])
async def test_contents_of_a_project_that_its_server_returns_do_not_leak(
    attack: dict[str, Any], kind: str, tmp_path: Path
) -> None:
    """The model reads nothing private except what the server returns."""
    orders = [order for order in attack["orders"] if not order.startswith("read_file")]
    attack = {**attack, "orders": orders}
    project = tmp_path / "workspace"
    async with attacked(tmp_path, attack, kind, text=PRIVATE_TEXT, project=project) as scene:
        assert scene.leaked() == []


@pytest.mark.parametrize("kind", ORDERS)
async def test_attack_leaks_if_a_person_approves(kind: str, tmp_path: Path) -> None:
    """The attack works without the protection, so the tests above detect it."""
    (attack,) = (candidate for candidate in ATTACKS if candidate["name"] == "address with a query")
    async with attacked(tmp_path, attack, kind, Agreeing()) as scene:
        assert CANARY in scene.loot()
