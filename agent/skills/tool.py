"""Tool that gives the model the text of a skill or one of its files."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from agent.context.active_skills import SKILL_TOOL
from agent.errors import ToolError
from agent.i18n import mark_for_translation
from agent.prompts import load_prompt, render_prompt
from agent.security.files import file_io
from agent.security.files.safe_open import read_regular
from agent.security.taint.taint import NOTHING, UNTRUSTED
from agent.skills.catalog import SkillCatalog, files_of
from agent.skills.definition import Skill
from agent.skills.substitution import fill_in, mark_commands
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
        "read", label=mark_for_translation("Reading the skill {name} {file}"), purpose="skills"
    )
    effect: ClassVar[Effect] = "read"
    brings: ClassVar[frozenset[Taint]] = NOTHING
    # A skill that runs apart takes as long as its sub-agent.
    lasts: ClassVar[bool] = True
    output_limit_bytes: ClassVar[int] = 100_000
    parameters: ClassVar[JsonSchema] = parameters(
        name="string", arguments="string?", file="string?"
    )

    def __init__(self, catalog: SkillCatalog) -> None:
        self.catalog = catalog

    @property
    def description(self) -> str:
        return load_prompt("tools/skill")

    async def run(self, args: Mapping[str, Any], call: CallContext) -> ToolResult:
        skills = await asyncio.to_thread(self.catalog.load, call.workspace)
        skill = skills.get(args["name"].strip().removeprefix("/"))
        if skill is None or not skill.is_for_model:
            names = ", ".join(name for name, available in skills.items() if available.is_for_model)
            raise ToolError(f"There is no skill {args['name'][:80]!r}; there are: {names}.")
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


def skill_text(skill: Skill, arguments: str = "") -> str:
    """Return the text of a skill for the model, with its arguments and the names of its files."""
    body = fill_in(mark_commands(skill.body), arguments, skill.arguments)
    names = files_of(skill)
    files = render_prompt("skill_files", files=", ".join(names)) if names else ""
    return render_prompt(
        "skill_text", title=skill.name, folder=skill.folder, body=body, files=files
    ).strip()


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
