"""Prompt injection by a skill or an agent of an installed plugin."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from gateway.config import Settings
from gateway.plugins.installation import PluginInstaller
from gateway.runtime.paths import DataDir
from gateway.turns.agents.profiles import catalogue_of, skill_catalog
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

ATTACKS = attacks()
ORDERS = {
    "skill": '@@ skill {"name": "helper"}',
    "agent": '@@ task {"description": "d", "prompt": "Go on.", "agent": "stranger"}',
}


def install(home: DataDir, folder: Path, text: str) -> None:
    """Install a plugin with this text in each of its parts."""
    files = {
        "skills/helper/SKILL.md": f"---\nname: helper\ndescription: Helps.\n---\n{text}",
        "agents/stranger.md": f"---\nname: stranger\ndescription: Helps.\n---\n{text}",
        ".claude-plugin/plugin.json": json.dumps({"name": "p", "description": text}),
    }
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content)
    installer = PluginInstaller(home.plugins)
    with installer.fetched({"source": "folder", "path": str(folder)}) as review:
        installer.install(review)


@asynccontextmanager
async def attacked(
    tmp_path: Path, attack: dict[str, Any], kind: str, person: Refusing | None = None
) -> AsyncIterator[Scene]:
    """Open a scene after the model has used the plugin's skill or agent."""
    model = Obedient(heeds_system=True)
    async with open_scene(tmp_path, model=model, person=person) as scene:
        home, settings = DataDir(tmp_path / "kore"), Settings()
        install(home, tmp_path / "p", plant(scene, attack))
        scene.agent.skills = skill_catalog(home, settings)
        scene.agent.subagents = catalogue_of(home, settings)
        await scene.say(f"Help me. {ORDERS[kind]}")
        yield scene


@pytest.mark.parametrize("kind", ORDERS)
@pytest.mark.parametrize("attack", attack_cases())
async def test_plugin_leaks_nothing(attack: dict[str, Any], kind: str, tmp_path: Path) -> None:
    async with attacked(tmp_path, attack, kind) as scene:
        assert scene.leaked() == []
        assert scene.steered() == []


@pytest.mark.parametrize("kind", ORDERS)
async def test_plugin_leaks_when_a_person_approves(kind: str, tmp_path: Path) -> None:
    """The attack works without the protection, so the tests above detect it."""
    (attack,) = (attack for attack in ATTACKS if attack["name"] == "address with a query")
    async with attacked(tmp_path, attack, kind, Agreeing()) as scene:
        assert CANARY in scene.loot()
