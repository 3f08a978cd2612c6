"""Where a file comes from: the owner's own places, and everywhere else."""

import os
from collections.abc import Sequence
from pathlib import Path

from agent.frozen import frozen
from agent.security.marks import is_marked


@frozen
class Origin:
    """`own` are the folders whose files count as the owner's: the workspace and the trusted ones,
    by their real paths.

    Everything else is a stranger's by where it is, its name included, whatever marks it has.
    """

    own: tuple[Path, ...] = ()

    def is_own(self, path: Path) -> bool:
        """Whether a file or folder really lies in one of them."""
        return is_in(path, self.own)

    def is_untrusted(self, path: Path) -> bool:
        """Whether what it holds may be a stranger's words."""
        return not self.is_own(path) or is_marked(path)


def is_in(path: Path, places: Sequence[Path]) -> bool:
    """Whether the path really lies in one of the places, or is one.

    Places are real paths: one where a link lies by now, which a command may have put there, is no
    place any more.
    """
    if not places:
        return False
    real = Path(os.path.realpath(path))
    return any(map(real.is_relative_to, places))
