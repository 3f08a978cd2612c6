"""How a verb reaches the data: through the process that owns it, or by owning it for a moment."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from agent.errors import KoreError
from agent.language import t
from gateway.client import Client
from gateway.home import Home
from gateway.service import Service

if TYPE_CHECKING:
    from gateway.settings import Settings


class NotRunning(KoreError):
    """No Kore is running here."""

    code = "not-running"


@asynccontextmanager
async def open_service(
    settings: "Settings", home: Home, *, own: bool = True, attended: Sequence[str] = ()
) -> AsyncIterator[Service]:
    """The running Kore's service; without one, this process's own until the block ends.

    With `own` false nothing is opened and `NotRunning` is raised instead. `attended` are lanes of
    one-shot runs that this process waits for.
    """
    client = await Client.connect(home.socket)
    if client is not None:
        yield client
        return
    if not own:
        raise NotRunning(t("Kore is not running"), hint=t("`kore gateway` starts it"))
    from gateway.app import open_app

    async with open_app(settings, home, channels=False, attended=attended) as app:
        yield app.desk
