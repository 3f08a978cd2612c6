"""Supervisor of channel receivers: a failing channel does not affect others."""

import asyncio
import logging
from collections.abc import Mapping

from agent.errors import KoreError
from gateway.channels.base import Accept, Channel

log = logging.getLogger(__name__)

RESTART_INTERVAL_S = 30.0


class ChannelSupervisor:
    """Supervisor of channels; `failures` contains the reason for each failing (name, account)."""

    def __init__(
        self,
        channels: Mapping[tuple[str, str], Channel],
        *,
        again_after_s: float = RESTART_INTERVAL_S,
    ) -> None:
        self.failures: dict[tuple[str, str], str] = {}
        self._channels = channels
        self._again_after_s = again_after_s

    async def run(self, accept: Accept) -> None:
        """Receive until cancelled."""
        async with asyncio.TaskGroup() as group:
            for channel in self._channels.values():
                name = f"{channel.name}:{channel.account}"
                group.create_task(self._receive(channel, name, accept), name=f"channel {name}")

    async def _receive(self, channel: Channel, name: str, accept: Accept) -> None:
        """Run a channel's receiver, restarting it after a bug.

        A deliberate error, such as a wrong token, needs the owner and ends the receiver. A restart
        loses nothing, because only stored messages were confirmed.
        """
        key = channel.name, channel.account
        while True:
            receiving = asyncio.create_task(channel.run(accept))
            try:
                await asyncio.wait({receiving})
            finally:
                receiving.cancel()
                await asyncio.wait({receiving})
            error = None if receiving.cancelled() else receiving.exception()
            if isinstance(error, KoreError):
                self.failures[key] = ". ".join(filter(None, (str(error), error.hint)))
                log.error("%s receives nothing: %s", name, self.failures[key])
                return
            # A foreign error may quote an address with a token, which only the log redacts.
            kind = type(error).__name__ if error else "it just ended"
            self.failures[key] = f"stopped unexpectedly ({kind}); the log says more"
            log.error("%s %s", name, self.failures[key], exc_info=error)
            await asyncio.sleep(self._again_after_s)
            del self.failures[key]
