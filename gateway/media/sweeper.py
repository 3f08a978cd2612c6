"""Once a day, what has lain in the inbox for longer than it is kept is deleted."""

import asyncio
import logging
import time
from pathlib import Path

from agent.security.files.inbox import INBOX_FOLDER

log = logging.getLogger(__name__)

# A one-shot run is over by then.
BEGINS_AFTER_S = 10.0
_DAY_S = 86_400.0


async def delete_expired_daily(workspace: Path, keep_days: int) -> None:
    """Until cancelled."""
    rest_s = BEGINS_AFTER_S
    while True:
        await asyncio.sleep(rest_s)
        rest_s = _DAY_S
        from gateway.media.storage import delete_older_than

        inbox, before = workspace / INBOX_FOLDER, time.time() - keep_days * _DAY_S
        if deleted := await asyncio.to_thread(delete_older_than, inbox, before):
            log.info("deleted %d files of the inbox: older than %d days", deleted, keep_days)
