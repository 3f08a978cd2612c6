"""Port to the files that a person's editor shows."""

from pathlib import Path
from typing import Protocol


class EditorFiles(Protocol):
    """Files of the working folder as the person's editor shows them. Both raise `KoreError` when
    the editor gives no answer in time, or one that is no use."""

    async def read_text(self, path: Path) -> str | None:
        """The text of a file, with changes that are not saved; None where the editor shows none."""
        ...

    async def write_text(self, path: Path, text: str) -> bool:
        """Show this text and save it; False where the editor does not take any."""
        ...
