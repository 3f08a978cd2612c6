"""`kore gateway`: the service, until it is told to stop."""

import argparse
import asyncio
import logging
from typing import TYPE_CHECKING

from gateway.collector import settle

if TYPE_CHECKING:
    from gateway.home import Home
    from gateway.service import Service
    from gateway.settings import Settings

log = logging.getLogger(__name__)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-q", "--quiet", action="store_true", help="log to the file only")


def run(args: argparse.Namespace) -> int:
    import os

    from gateway.cli.basis import home_of, settings_of
    from gateway.logs import open_logs
    from gateway.settings import require_model, require_telegram
    from gateway.settings.models import check_models
    from gateway.shield import shield

    shield()
    home, settings = home_of(args), settings_of(args)
    require_model(settings)
    # A model that cannot be asked is told here, once, and not to everybody who writes.
    check_models(settings, os.environ)
    require_telegram(settings)
    home.ensure()
    open_logs(
        settings,
        args.crash.redactor,
        terminal=not args.quiet,
        default_file=home.logs / "kore.log",
    )
    asyncio.run(_serve(settings, home))
    return 0


async def _serve(settings: "Settings", home: "Home") -> None:
    """Runs until SIGTERM or SIGINT, then drains; a second signal ends it at once."""
    import os
    import signal

    from gateway.app import App

    stopped = asyncio.Event()

    def stop() -> None:
        if stopped.is_set():
            # Nothing is lost: what is under way is in the journal.
            os._exit(1)
        stopped.set()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop)
    async with App.open(settings, home, channels=True) as app:
        await _announce(app.desk)
        settle()
        await stopped.wait()


async def _announce(service: "Service") -> None:
    """The first sign of life; later ones are only of what goes wrong."""
    facts = await service.status()
    channels = ", ".join(facts["channels"]) or "none (telegram.enabled is false)"
    log.info(
        "Kore %s is running: model %s, channels %s; Ctrl-C stops it",
        facts["version"],
        facts["model"],
        channels,
    )
    if facts["model_hint"]:
        log.warning("%s", facts["model_hint"])
