"""Where a file comes from: the owner's own places, and everywhere else."""

import os
import shlex
from collections.abc import Collection, Sequence
from pathlib import Path

from agent.records import frozen
from agent.security.files.instruction_files import is_instruction_file
from agent.security.taint.file_marks import MarkLevel, is_marked
from agent.types import Taint


@frozen
class TrustedOrigins:
    """`own` are the folders whose files count as the owner's: the workspace and the trusted ones,
    by their real paths.

    Everything else is a stranger's by where it is, its name included, whatever marks it has.
    """

    own: tuple[Path, ...] = ()

    @property
    def personal(self) -> Path | None:
        """The personal workspace: the first of the folders."""
        return next(iter(self.own), None)

    def is_foreign(self, workspace: Path, taint: Collection[Taint]) -> bool:
        """Return whether strangers may steer what happens in a workspace: it lies in none of the
        folders, or it is a trusted project and the conversation has taken in untrusted text."""
        if self.personal is not None and is_in(workspace, (self.personal,)):
            return False
        return "untrusted" in taint or not self.is_own(workspace)

    def is_own(self, path: Path) -> bool:
        """Whether a file or folder really lies in one of them."""
        return is_in(path, self.own)

    def is_untrusted(self, path: Path) -> bool:
        """Whether what it holds may be a stranger's words."""
        return not self.is_own(path) or is_marked(path)


def is_unconfirmed(path: Path, workspace: Path, level: MarkLevel) -> bool:
    """Return whether a file of this mark level cannot be instructions: it was written while
    untrusted text was around, and no person was asked about it.

    A command may have done that at any depth, or a file tool that asks only where
    `is_instruction_file` says so. `kore trust` confirms it.
    """
    if level == "seen":
        return not is_instruction_file(os.path.abspath(path), os.path.realpath(workspace))
    return level == "unseen"


def unconfirmed_notice(path: Path) -> str:
    """For the person: why it is not used."""
    return (
        f"{path} was written by a command or tool that may have read untrusted content, so it is "
        "not used. Review the file; then trust it: "
        f"kore trust {shlex.quote(str(path))}"
    )


def is_in(path: Path, places: Sequence[Path]) -> bool:
    """Whether the path really lies in one of the places, or is one.

    Places are real paths: one where a link lies by now, which a command may have put there, is no
    place any more. A path that changes while it is looked at lies in none.
    """
    if not places:
        return False
    try:
        return lies_in(os.path.realpath(path), places)
    except OSError:
        return False


def lies_in(real: str, places: Sequence[Path]) -> bool:
    """Whether this real path lies in one of the places, or is one."""
    # As texts: every turn asks, and `Path` takes several times as long.
    return any(f"{real}/".startswith(os.path.join(place, "")) for place in places)
