"""Safe unpacking of zip and tar archives."""

from agent.security.archive.entry import ArchiveLimits
from agent.security.archive.extract import extract

__all__ = ["ArchiveLimits", "extract"]
