"""What a program's conversations have been told of their project."""

from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path

from agent.context.project.context import ProjectContext
from agent.security.taint.origin import TrustedOrigins

_MOST_SESSIONS = 128


class SessionProjects:
    """`clean` takes secrets out, and `origin` says which places are the owner's."""

    def __init__(self, root: Path, origin: TrustedOrigins, clean: Callable[[str], str]) -> None:
        self._root, self._origin, self._clean = root, origin, clean
        self._projects: OrderedDict[str, tuple[int, ProjectContext]] = OrderedDict()

    def project_of(self, session: str, upto: int) -> ProjectContext:
        """The messages up to number `upto` have left the conversation: what they told is told
        again."""
        last, project = self._projects.pop(session, (upto, None))
        if project is None or last != upto:
            project = ProjectContext(self._root, clean=self._clean, origin=self._origin)
        self._projects[session] = (upto, project)
        while len(self._projects) > _MOST_SESSIONS:
            self._projects.popitem(last=False)
        return project

    def forget(self, session: str) -> None:
        """The conversation holds nothing of what it was told."""
        self._projects.pop(session, None)
