"""How language servers are, for people."""

from pathlib import Path
from typing import Literal

from agent.records import frozen

ServerState = Literal["idle", "starting", "ready", "failed"]


@frozen
class ServerStatus:
    """One server for one folder. `failure` is a sentence, `documents` how many files it has
    open."""

    name: str
    folder: Path
    state: ServerState
    failure: str = ""
    documents: int = 0
