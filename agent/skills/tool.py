"""Tool that gives the model the text of a skill or one of its files."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from agent.context.active_skills import SKILL_TOOL
from agent.errors import ToolError
from agent.i18n import mark_for_translation
from agent.prompts import load_prompt
from agent.security.files import file_io
from agent.security.files.safe_open import read_regular
from agent.security.taint.taint import NOTHING, UNTRUSTED
from agent.skills.catalog import SkillCatalog, listing_line
from agent.skills.definition import Skill, files_of, find_skill
from agent.skills.substitution import skill_text
from agent.text.similar_names import similar_names
from agent.tools.base import CallContext, SubagentRequest
from agent.tools.schema import parameters
from agent.tools.traits import ToolTraits
from agent.types import Effect, JsonSchema, Taint, ToolResult

_FILE_LIMIT_BYTES = 1_000_000


class SkillTool:
    """Tool that reads skills.

    A skill is trusted unless it came with a plugin; untrusted skills of others are not in the
    catalog.
    """

    name: ClassVar[str] = SKILL_TOOL
    traits: ClassVar[ToolTraits] = ToolTraits(
        "read",
        label=mark_for_translation("Reading skills: {name} {file} {query}"),
        purpose="skills",
    )
    effect: ClassVar[Effect] = "read"
    brings: ClassVar[frozenset[Taint]] = NOTHING
    # A skill that runs apart takes as long as its sub-agent.
    lasts: ClassVar[bool] = True
    output_limit_bytes: ClassVar[int] = 100_000
    parameters: ClassVar[JsonSchema] = parameters(
        name="string?", arguments="string?", file="string?", query="string?"
    )

    def __init__(self, catalog: SkillCatalog) -> None:
        self.catalog = catalog

    @property
    def description(self) -> str:
        return load_prompt("tools/skill")

    async def run(self, args: Mapping[str, Any], call: CallContext) -> ToolResult:
        name = (args.get("name") or "").strip().removeprefix("/")
        if not name:
            return await self._search(args.get("query") or "", call)
        skills = await asyncio.to_thread(self.catalog.load, call.workspace)
        skill = find_skill(skills, name)
        if skill is None or not skill.is_for_model:
            raise ToolError(_no_skill(name, skills))
        taint = NOTHING if skill.is_own else UNTRUSTED
        if file := args.get("file"):
            return ToolResult(await file_io.in_thread(lambda: _file(skill, file)), taint=taint)
        text = await asyncio.to_thread(skill_text, skill, args.get("arguments") or "")
        if skill.runs_apart and call.spawn is not None:
            request = SubagentRequest(
                title=skill.name, prompt=text, agent=skill.agent or "general", model=skill.model
            )
            return await call.spawn(request, call)
        return ToolResult(text, for_user=skill.name, taint=taint)

    async def _search(self, query: str, call: CallContext) -> ToolResult:
        if not query.strip():
            raise ToolError("Name a skill, or search with `query`.")
        skills = await asyncio.to_thread(self.catalog.search, query, call.workspace)
        if not skills:
            raise ToolError("No skill matches; try other words.")
        lines = [listing_line(name, skill) for name, skill in skills.items()]
        is_own = all(skill.is_own for skill in skills.values())
        return ToolResult(
            "\n".join(lines), for_user=", ".join(skills), taint=NOTHING if is_own else UNTRUSTED
        )


def _no_skill(name: str, skills: Mapping[str, Skill]) -> str:
    """Return the reason why no skill has this name, with the names that may be meant."""
    available = [other for other, skill in skills.items() if skill.is_for_model]
    equal = [other for other in available if skills[other].name == name]
    names = ", ".join(equal or similar_names(name, available)) or "find them with `query`"
    return f"There is no skill {name[:80]!r}; did you mean: {names}?"


def _file(skill: Skill, name: str) -> str:
    """Return a file of the skill's folder. Raises `ToolError`."""
    folder = skill.folder.resolve()
    path = (folder / name).resolve()
    try:
        if not path.is_relative_to(folder):
            raise FileNotFoundError(path)
        data = read_regular(path, _FILE_LIMIT_BYTES + 1)
    except OSError as exc:
        names = ", ".join(files_of(skill)) or "none"
        raise ToolError(
            f"The skill {skill.name} has no file {name[:200]!r}; its files: {names}."
        ) from exc
    if b"\0" in data[:4096]:
        raise ToolError(f"{Path(name).name} is not text.")
    return data[:_FILE_LIMIT_BYTES].decode("utf-8", "replace")
