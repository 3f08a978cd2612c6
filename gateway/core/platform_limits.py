"""Limits of chat platforms, reported by their channels to shared code."""

from typing import Literal

from agent.records import frozen
from gateway.core.messages import FileKind


@frozen
class TextLimit:
    """Maximum length of a text, in the unit that the platform counts."""

    size: int
    unit: Literal["characters", "utf16", "bytes"] = "characters"

    def allows(self, text: str) -> bool:
        """Return whether the text is short enough."""
        match self.unit:
            case "characters":
                return len(text) <= self.size
            case "utf16":
                return len(text.encode("utf-16-le", "surrogatepass")) // 2 <= self.size
            case "bytes":
                return len(text.encode("utf-8", "surrogatepass")) <= self.size


@frozen
class FileLimits:
    """Limits for files.

    Pictures larger than `photo_bytes` are sent as documents. `album_kinds` are groups of kinds that
    may share an album of at most `album_files` files; without any, each file is a message. Text
    longer than `caption` allows becomes a separate message.
    """

    file_bytes: int
    photo_bytes: int
    caption: TextLimit
    album_files: int = 1
    album_kinds: tuple[frozenset[FileKind], ...] = ()


@frozen
class ButtonLimits:
    """Limits for buttons: their data, and their number below a message."""

    data_bytes: int
    count: int
