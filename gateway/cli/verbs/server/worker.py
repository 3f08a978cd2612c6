"""Command `kore worker`: run turns for a gateway on this or another machine."""

import argparse
import asyncio
import logging
import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress

from gateway.cli.folders import data_dir_of
from gateway.cli.settings import settings_of
from gateway.cli.verbs.gateway import check_settings, run_until, watched_config
from gateway.config import Settings
from gateway.control.replacement import REPLACED
from gateway.runtime.allocator import keep_one_arena
from gateway.runtime.gc_tuning import collect_during_start
from gateway.runtime.log_setup import open_logs
from gateway.store.errors import StoreTakenOver
from gateway.worker_app import open_worker

log = logging.getLogger(__name__)


def run(args: argparse.Namespace) -> int:
    keep_one_arena()
    collect_during_start()
    home, settings = data_dir_of(args), settings_of(args)
    check_settings(settings)
    home.ensure()
    name = "worker.log" if args.slot is None else f"worker-{args.slot}.log"

    def log_as(settings: Settings) -> None:
        file = home.logs / name
        open_logs(settings, args.crash.redactor, terminal=not args.quiet, default_file=file)

    log_as(settings)
    try:
        with suppress(asyncio.CancelledError):
            asyncio.run(_serve(args, settings, log_as))
    except StoreTakenOver as exc:
        # The worker was declared dead during its start.
        log.critical("%s", exc)
        return REPLACED
    return 0


async def _serve(
    args: argparse.Namespace, settings: Settings, log_as: Callable[[Settings], None]
) -> None:
    """Run until SIGTERM or SIGINT, then hand over the turns; a second signal exits at once."""
    stopped = asyncio.Event()

    def stop() -> None:
        if stopped.is_set():
            # No work is lost, because running turns are in the journal.
            os._exit(1)
        stopped.set()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop)
    if args.slot is not None:
        # A key typed in the gateway's terminal is for the gateway.
        loop.add_signal_handler(signal.SIGINT, lambda: None)
        loop.add_reader(sys.stdin.fileno(), lambda: _end_with_input(stopped))
    # The gateway notifies the owner of mistakes, because the file is mostly its own.
    config = watched_config(args, settings, log_as, notifies_owner=False)
    async with open_worker(
        settings, data_dir_of(args), config=config, http_port=args.http_port
    ) as app:
        await run_until(stopped, app)


def _end_with_input(stopped: asyncio.Event) -> None:
    if not os.read(sys.stdin.fileno(), 1024):
        asyncio.get_running_loop().remove_reader(sys.stdin.fileno())
        stopped.set()
