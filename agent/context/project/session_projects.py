"""Project context of sessions without a screen that manages it."""

import asyncio
import re
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

from agent.context.project.context import ContextUpdate, ProjectContext
from agent.context.project.directory_tree import TreeLimits
from agent.prompts import load_prompt
from agent.records import frozen
from agent.security.taint.origin import TrustedOrigins
from agent.settings import ToolSettings
from agent.types import Context, Message

_PROMPTS = ("project_tree", "project_tree_changes", "project_file", "project_beginning")


def find_repeats(parts: Iterable[str], messages: Sequence[Message]) -> set[str]:
    """Return the parts that are identical to the latest context about their file or folder."""
    last: dict[str, str] = {}
    for message in messages:
        for part in message.content:
            if isinstance(part, Context):
                last[_subject(part.text)] = part.text
    return {part for part in parts if last.get(_subject(part)) == part}


def _subject(text: str) -> str:
    """Return the path that a part describes; for other texts, the text itself."""
    first_line = text.partition("\n")[0]
    matches = (pattern.fullmatch(first_line) for pattern in _patterns())
    return next((match[1] for match in matches if match is not None), text)


@cache
def _patterns() -> tuple[re.Pattern[str], ...]:
    """Return patterns for the first lines of the prompts."""
    lines = (load_prompt(name).partition("\n")[0] for name in _PROMPTS)
    ends = (re.split(r"\$(?:root|path)", line) for line in lines)
    return tuple(re.compile(f"{re.escape(begin)}(.+){re.escape(end)}") for begin, end in ends)


_MAX_SESSIONS = 128


@frozen
class ProjectSession:
    """Session in a project folder.

    Messages up to number `upto` have left the conversation: their context is reported again.
    """

    session: str
    root: Path
    upto: int
    start_folder: Path | None = None


class SessionProjects:
    """Project contexts by session.

    `clean` removes secrets, `origin` identifies the owner's places, and git runs in the sandbox of
    `settings`.
    """

    def __init__(
        self, origin: TrustedOrigins, clean: Callable[[str], str], settings: ToolSettings
    ) -> None:
        self._origin, self._clean, self._settings = origin, clean, settings
        self._projects: OrderedDict[str, tuple[ProjectSession, ProjectContext]] = OrderedDict()
        self.shape = TreeLimits()

    async def with_news(
        self, here: ProjectSession, question: Message, messages: Sequence[Message]
    ) -> Message:
        """Return the question with project context that is new to the conversation.

        The context consists of the tree of the folder and the beginnings of README and
        configuration files.
        """
        project = self._project_of(here, is_new=not messages)
        news = await asyncio.to_thread(project.news)
        parts = _new_parts(news, messages) if news is not None else ()
        if news is None or not parts:
            return question
        content = (*map(Context, parts), *question.content)
        return replace(question, content=content, taint=question.taint | news.taint)

    def forget(self, session: str) -> None:
        """Report the project context of the session again."""
        self._projects.pop(session, None)

    def _project_of(self, here: ProjectSession, *, is_new: bool) -> ProjectContext:
        last, project = self._projects.pop(here.session, (None, None))
        if project is None or is_new or last != here:
            project = ProjectContext(
                here.root,
                start_folder=here.start_folder,
                shape=self.shape,
                clean=self._clean,
                origin=self._origin,
                sandbox=lambda: self._settings.sandbox,
            )
        self._projects[here.session] = (here, project)
        while len(self._projects) > _MAX_SESSIONS:
            self._projects.popitem(last=False)
        return project


def _new_parts(news: ContextUpdate, messages: Sequence[Message]) -> list[str]:
    repeats = find_repeats(news.parts, messages)
    return [text for text in news.parts if text not in repeats]
