"""Files outside the workspace that the sandbox shows to commands, shared with file tools."""

import logging
import os
from collections.abc import Iterable
from pathlib import Path

from agent.approvals import FolderAccess
from agent.records import frozen
from agent.security.files.reading_rights import ReadingRights
from agent.security.sandbox import environment
from agent.security.sandbox.base import KeepsHome, RunsAsOtherUser, Sandbox, ShowsFolders
from agent.tools.base import TemporaryFolder
from agent.tools.shell.session_space import SessionSpaces

log = logging.getLogger(__name__)

_TMP = Path(environment.TEMPORARY)


@frozen
class SandboxFiles:
    """Implements `CommandFiles` for the commands of one session in this sandbox."""

    sandbox: Sandbox
    spaces: SessionSpaces
    session: str
    workspace: Path

    def readable(self) -> tuple[Path, ...]:
        if isinstance(self.sandbox, ShowsFolders):
            return self.sandbox.readable_files(self.workspace)
        return ()

    def rights(self, path: Path) -> ReadingRights | None:
        if not isinstance(self.sandbox, RunsAsOtherUser):
            return None
        temporary = self.temporary()
        if temporary is not None and path.is_relative_to(temporary.path):
            return self.sandbox.rights_in_temporary(temporary.path)
        return self.sandbox.reading_rights(path, self.workspace)

    def temporary(self) -> TemporaryFolder | None:
        if not isinstance(self.sandbox, KeepsHome):
            return None
        try:
            return self._temporary_in(self.spaces.folder(self.session), self.sandbox)
        except OSError as exc:
            log.warning("the folder for temporary files cannot be used: %s", exc)
            return None

    def real_path(self, path: str, added: Iterable[FolderAccess] = ()) -> str:
        if not path.startswith("/") or "\0" in path:
            return path
        lexical = Path(os.path.normpath(path))
        if lexical.is_relative_to(self.workspace) or not lexical.is_relative_to(_TMP):
            return path
        if any(lexical.is_relative_to(folder.path) for folder in added):
            return path
        temporary = self.temporary()
        inside = None if temporary is None else temporary.path / lexical.relative_to(_TMP)
        if inside is None:
            return path
        if not os.path.lexists(inside) and os.path.lexists(lexical):
            return path
        return str(inside)

    def holds(self, path: Path) -> bool:
        real = Path(os.path.realpath(path))
        if any(map(real.is_relative_to, environment.readable_files())):
            return isinstance(self.sandbox, ShowsFolders)
        space = self.spaces.existing_folder(self.session)
        return space is not None and real.is_relative_to(os.path.realpath(space))

    def display(self, text: str) -> str:
        space = self.spaces.existing_folder(self.session)
        if space is None or not isinstance(self.sandbox, KeepsHome):
            return text
        temporary = self._temporary_in(space, self.sandbox)
        return text.replace(str(temporary.path), str(temporary.command_path))

    def _temporary_in(self, space: Path, sandbox: KeepsHome) -> TemporaryFolder:
        real = Path(os.path.realpath(space))
        path, command_path = sandbox.temporary_folder(real)
        return TemporaryFolder(path, Path(command_path), sandbox.home(real)[0])
