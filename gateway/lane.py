"""A lane: what the bus knows of one chat's queue while there is something to do in it."""

import asyncio

from agent.progress import Stop
from gateway.store.claims import Claim, CommandClaim


class Lane:
    """One chat's queue: what waits in it is on disk, here is only what is under way.

    `claim` is being handled; `broken` is one that a bug has ended, and nobody was told yet. Beside
    it, one that is `aside` carries out what goes past the queue.
    """

    def __init__(self, name: str, *, aside: bool = False) -> None:
        self.name = name
        self.aside = aside
        self.wake = asyncio.Event()
        self.stop: Stop | None = None
        self.claim: Claim | CommandClaim | None = None
        self.broken: Claim | CommandClaim | None = None
