"""Status of language servers for display."""

from pathlib import Path
from typing import Literal

from agent.records import frozen

ServerState = Literal["idle", "starting", "ready", "failed"]


@frozen
class ServerStatus:
    """Status of a server in a folder.

    `failure` is a sentence for people, `documents` the number of open files.
    """

    name: str
    folder: Path
    state: ServerState
    failure: str = ""
    documents: int = 0
