"""Project context of sessions without a screen that manages it."""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from agent.context.project.context import ContextUpdate, ProjectContext
from agent.context.project.directory_tree import TreeLimits
from agent.context.project.repeated_parts import find_repeats
from agent.records import frozen
from agent.security.taint.origin import TrustedOrigins
from agent.settings import ToolSettings
from agent.types import Context, Message

_MOST_SESSIONS = 128


@frozen
class ProjectSession:
    """Session in a project folder.

    Messages up to number `upto` have left the conversation: their context is reported again.
    """

    session: str
    root: Path
    upto: int


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
                shape=self.shape,
                clean=self._clean,
                origin=self._origin,
                sandbox=lambda: self._settings.sandbox,
            )
        self._projects[here.session] = (here, project)
        while len(self._projects) > _MOST_SESSIONS:
            self._projects.popitem(last=False)
        return project


def _new_parts(news: ContextUpdate, messages: Sequence[Message]) -> list[str]:
    repeats = find_repeats(news.parts, messages)
    return [text for text in news.parts if text not in repeats]
