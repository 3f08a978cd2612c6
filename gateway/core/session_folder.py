"""Folder of a session."""

from agent.records import frozen


@frozen
class SessionFolder:
    """Folder that a session works in, as real paths.

    Commands and relative paths start in `start_folder`, a folder inside `workspace`; None for
    `workspace` itself.
    """

    workspace: str
    start_folder: str | None = None

    @property
    def path(self) -> str:
        """Folder where work starts."""
        return self.start_folder or self.workspace
