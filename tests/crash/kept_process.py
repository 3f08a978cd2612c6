"""A supervised `kore` process, one of several on a database, behind a proxy to that database.

The process is restarted whenever it ends; the connections can be cut and stalled.
"""

import asyncio
import signal
from collections import Counter
from contextlib import suppress

from gateway.control.replacement import REPLACED
from tests.gateway.end_to_end.gateway_process import GatewayProcess
from tests.gateway.store.postgres.cutting_proxy import CuttingProxy

_POLL_INTERVAL_S = 0.01
# Log texts of a process that has joined the group, and of a process that takes turns itself.
_JOINS, _TAKES_TURNS, _WAITS = " joins ", "taking turns", "waiting for"


class KeptWorker:
    """Supervisor of a process; `run` restarts it until `is_over`, `ends` counts its exit codes.

    `is_disturbed` is set while a fault is being injected.
    """

    def __init__(self, process: GatewayProcess, proxy: CuttingProxy) -> None:
        self.process, self.proxy = process, proxy
        self.ends = Counter[int]()
        self.is_over = self.is_disturbed = False
        self._joined = 0
        # Signals sent since the last start.
        self._signals: set[int] = set()

    async def run(self) -> None:
        while not self.is_over:
            self._joined = self._count(_JOINS)
            self._signals.clear()
            await self.process.launch()
            while self.process.runs:
                await asyncio.sleep(_POLL_INTERVAL_S)
            code = await self.process.exit_code()
            self.ends[code] += 1
            self._check(code)

    def send(self, number: signal.Signals) -> None:
        """Send a signal; a process that has just ended is ignored."""
        self._signals.add(number)
        with suppress(ProcessLookupError):
            self.process.signal(number)

    @property
    def has_joined(self) -> bool:
        return self.process.runs and self._count(_JOINS) > self._joined

    @property
    def is_at_work(self) -> bool:
        """True once the code that ends a replaced process is running."""
        log_of_process = self.process.log_text().rpartition(_JOINS)[2]
        return self.has_joined and (_TAKES_TURNS in log_of_process or _WAITS in log_of_process)

    def _count(self, words: str) -> int:
        return self.process.log_text().count(words)

    def _check(self, code: int) -> None:
        is_expected = (
            code == REPLACED
            or (code == -signal.SIGKILL and signal.SIGKILL in self._signals)
            # Before signal handlers are installed, a signal ends the process at once.
            or (code in (0, -signal.SIGTERM) and signal.SIGTERM in self._signals)
            # The database was unavailable.
            or (code > 0 and self._count(_JOINS) == self._joined)
        )
        assert is_expected, f"a worker ended with {code}:\n{self.process.log_text()}"
