"""Skill files, their catalogue, and a call that loads one."""

import json
from pathlib import Path

from agent.skills.catalog import SkillCatalog, SkillPaths
from agent.types import ToolCall


def write(folder: Path, name: str, text: str | bytes = "", **files: str) -> Path:
    """Write a skill's folder, with an ordinary text by default."""
    place = folder / name
    place.mkdir(parents=True)
    text = text or f"---\nname: {name}\ndescription: How to do {name}.\n---\nFirst look, then leap."
    data = text.encode() if isinstance(text, str) else text
    (place / "SKILL.md").write_bytes(data)
    for file, content in files.items():
        (place / file.replace("__", "/")).parent.mkdir(exist_ok=True)
        (place / file.replace("__", "/")).write_text(content)
    return place


def catalog(tmp_path: Path, *trusted: Path) -> SkillCatalog:
    for name in ("user", "own", "workspace"):
        (tmp_path / name).mkdir(exist_ok=True)
    return SkillCatalog(
        SkillPaths(tmp_path / "user", tmp_path / "own", tmp_path / "workspace", trusted)
    )


def skill_call(call_id: str, **arguments: str) -> ToolCall:
    return ToolCall(call_id, "skill", arguments, json.dumps(arguments))
