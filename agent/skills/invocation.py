"""Skills invoked by a person: `/NAME` and arguments at the beginning of a message."""

import re
from collections.abc import Mapping

from agent.prompts import render_prompt
from agent.records import frozen
from agent.skills.definition import Skill
from agent.skills.tool import skill_text

# Chats append the name of a bot, and their menus require `_` instead of `-`.
_CALL = re.compile(r"/([^\s/@]+)(?:@\w+)?(?:\s+(.*))?", re.DOTALL)


@frozen
class SkillInvocation:
    skill: Skill
    arguments: str = ""

    def text(self) -> str:
        """Return the text for the model: the skill's text, or a request to delegate it."""
        text = skill_text(self.skill, self.arguments)
        if not self.skill.runs_apart:
            return text
        return render_prompt("skill_apart", agent=self.skill.agent or "general", text=text)


def invocation_in(text: str, skills: Mapping[str, Skill]) -> SkillInvocation | None:
    """Return the invocation in a message, or None if it invokes no skill available to people."""
    match = _CALL.fullmatch(text.strip())
    if match is None:
        return None
    skill = skills.get(match[1]) or skills.get(match[1].replace("_", "-").lower())
    if skill is None or not skill.is_for_people:
        return None
    return SkillInvocation(skill, (match[2] or "").strip())
