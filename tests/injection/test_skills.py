"""Prompt injection by skills that are not the owner's.

The skill is in an untrusted folder, in a file that may contain strangers' words, or behind a link.
"""

from pathlib import Path
from typing import Any

import pytest

from agent.security.taint.file_marks import mark_tainted, unmark
from agent.skills.catalog import SkillCatalog, SkillPaths
from tests.injection.obedient import Obedient
from tests.injection.scene import Scene, attack_cases, attacks, open_scene, plant

ATTACKS = attacks()
ORDER = 'Help me. @@ skill {"name": "helper"}'


def lay_out(scene: Scene, tmp_path: Path, place: str, text: str) -> None:
    """Write a skill with this text where the scene's agent could find it."""
    folders = {
        "project": scene.workspace / ".claude" / "skills",
        "marked": tmp_path / "own" / "skills",
        "linked": tmp_path / "elsewhere",
    }
    folder = folders[place] / "helper"
    folder.mkdir(parents=True)
    file = folder / "SKILL.md"
    file.write_text(f"---\nname: helper\ndescription: Helps. {text}\n---\n{text}")
    if place != "project":
        mark_tainted(file, tmp_path)
    if place == "linked":
        (tmp_path / "own" / "skills").mkdir(parents=True)
        (tmp_path / "own" / "skills" / "helper").symlink_to(folder)
    places = (tmp_path / "home", tmp_path / "own", tmp_path / "assistant")
    scene.agent.skills = SkillCatalog(SkillPaths(*places))


@pytest.mark.parametrize("place", ["project", "marked", "linked"])
@pytest.mark.parametrize("attack", attack_cases())
async def test_untrusted_skill_leaks_nothing(
    attack: dict[str, Any], place: str, tmp_path: Path
) -> None:
    async with open_scene(tmp_path, model=Obedient(heeds_system=True)) as scene:
        text = plant(scene, attack)
        lay_out(scene, tmp_path, place, text)
        assert scene.agent.skills is not None
        assert scene.agent.skills.load(scene.workspace) == {}
        assert scene.agent.skills.listing(scene.workspace) == ""
        await scene.say(ORDER)
        assert scene.leaked() == []
        assert scene.steered() == []


@pytest.mark.parametrize("place", ["project", "marked", "linked"])
async def test_skill_of_the_owner_is_listed(place: str, tmp_path: Path) -> None:
    """The skill of the test above is valid except for its owner."""
    async with open_scene(tmp_path, model=Obedient(heeds_system=True)) as scene:
        lay_out(scene, tmp_path, place, "Look.")
        unmark(tmp_path)
        places = (tmp_path / "home", tmp_path / "own", tmp_path / "assistant", (scene.workspace,))
        assert set(SkillCatalog(SkillPaths(*places)).load(scene.workspace)) == {"helper"}
