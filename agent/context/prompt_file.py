"""The beginning of a file that becomes part of the system prompt."""

import os
from pathlib import Path

from agent.security.files.safe_open import open_folder_beneath

LIMIT_CHARS = 20_000


def read_prompt_file(real: Path) -> str:
    """As much of the file as may be used, and a little more when there is more. No component of
    `real` may be a link. Raises OSError."""
    with open_folder_beneath(real.parent) as folder:
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        fd = os.open(real.name, flags, dir_fd=folder)
    with open(fd, encoding="utf-8", errors="replace") as file:
        return file.read(LIMIT_CHARS + 1).strip()
