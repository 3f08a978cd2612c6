"""Service connection, approval questions and interrupts for a turn in this terminal."""

import asyncio
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress

from agent.errors import ConfigError
from agent.events import ApprovalAsked
from agent.i18n import t
from gateway.cli.service_link import open_service
from gateway.config import Settings
from gateway.control.service import Service
from gateway.core.approval import ApprovalReply
from gateway.runtime.paths import DataDir


@asynccontextmanager
async def connected_service(
    settings: Settings,
    home: DataDir,
    *,
    attended: Sequence[str] = (),
    full_access: str | None = None,
) -> AsyncIterator[Service]:
    """Yield the service; `attended` and `full_access` are as in `open_service`.

    Raises `ConfigError` if it does not use the required sandbox.
    """
    async with open_service(settings, home, attended=attended, full_access=full_access) as service:
        if full_access is not None:
            yield service
            return
        required = settings.security.sandbox
        used = str((await service.status()).get("sandbox", ""))
        if required not in ("auto", "none") and used != required:
            raise ConfigError(
                t(
                    "--sandbox {required}: Kore is already running and uses the sandbox {used}",
                    required=required,
                    used=used,
                ),
                hint=t("stop it first, or set security.sandbox and restart it"),
            )
        yield service


def ask_here(
    interrupted: asyncio.Event,
) -> Callable[[ApprovalAsked], Awaitable[ApprovalReply]] | None:
    """Return a function that asks at this terminal; None without a terminal."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return None
    from gateway.cli.console.approvals.prompt import ask_at_terminal

    return ask_at_terminal(sys.stdin, sys.stderr, interrupted)


@contextmanager
def interrupts(interrupted: asyncio.Event) -> Iterator[None]:
    """Set the event on the first Ctrl-C and cancel the program on the second."""
    loop, main = asyncio.get_running_loop(), asyncio.current_task()

    def on_signal() -> None:
        if interrupted.is_set() and main is not None:
            main.cancel()
        interrupted.set()

    loop.add_signal_handler(signal.SIGINT, on_signal)
    try:
        yield
    finally:
        with suppress(RuntimeError):
            loop.remove_signal_handler(signal.SIGINT)
