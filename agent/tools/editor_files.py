"""Port for the files shown in a person's editor."""

from pathlib import Path
from typing import Protocol


class EditorFiles(Protocol):
    """Files of the working folder as the person's editor shows them.

    Both methods raise `KoreError` if the editor does not answer in time or answers with something
    unusable.
    """

    async def read_text(self, path: Path) -> str | None:
        """Return the text of a file with unsaved changes; None if the editor does not show it."""
        ...

    async def write_text(self, path: Path, text: str) -> bool:
        """Show this text and save it; return False if the editor does not accept texts."""
        ...
