"""Command `kore gateway`: run the service until it is stopped."""

import argparse
import asyncio
import logging
import os
import signal
import sys
from collections.abc import Callable, Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Any

from agent.errors import ConfigError
from agent.i18n import t
from agent.providers.registry import OFFLINE
from gateway.access.full_access import full_access_refusal
from gateway.app import open_app
from gateway.channels.table import check_channels
from gateway.cli.folders import data_dir_of
from gateway.cli.settings import settings_of, sources_of
from gateway.config import Settings, require_model
from gateway.config.channel_section import environment_variable
from gateway.config.model_entries import check_models, chosen_model
from gateway.container import Container
from gateway.control.service import Service
from gateway.core.channel_table import DEFAULT_CHANNEL
from gateway.ops.config_reload import WatchedConfig
from gateway.runtime.allocator import keep_one_arena, trim_regularly
from gateway.runtime.gc_tuning import collect_during_start, freeze_after_start
from gateway.runtime.log_setup import open_logs
from gateway.runtime.paths import DataDir
from gateway.runtime.secrets import secret_values
from gateway.workers.children import keep_workers

log = logging.getLogger(__name__)

_WORKER = (
    "import sys; sys.path.append({here!r}); from gateway.__main__ import main; sys.exit(main())"
)


def run(args: argparse.Namespace) -> int:
    if args.full_access:
        raise ConfigError(full_access_refusal())
    keep_one_arena()
    collect_during_start()
    home, settings = data_dir_of(args), _settings(args)
    if args.standby and settings.store.path is not None:
        raise ConfigError(
            t("--standby needs a database that several machines can reach"),
            hint=t("set store.url to a PostgreSQL database (docs/postgresql.md)"),
        )
    home.ensure()

    def log_as(settings: Settings) -> None:
        file = home.logs / "kore.log"
        open_logs(settings, args.crash.redactor, terminal=not args.quiet, default_file=file)

    log_as(settings)
    # A standby process that is stopped has nothing to finish.
    with suppress(asyncio.CancelledError):
        asyncio.run(_serve(args, settings, home, log_as))
    return 0


def _settings(args: argparse.Namespace) -> Settings:
    """Return valid settings. Raises `ConfigError`, because a start with invalid ones must fail.

    Problems such as an unusable model are reported once here instead of to every person who writes.
    """
    try:
        settings = settings_of(args)
        check_settings(settings)
    except ConfigError as exc:
        if exc.hint is None and data_dir_of(args).last_good_config.exists():
            exc.hint = t("`kore config revert` restores the last configuration a gateway used")
        raise
    return settings


def check_settings(settings: Settings) -> None:
    """Raise `ConfigError` for settings that a serving process cannot use."""
    require_model(settings)
    check_models(settings, os.environ)
    check_channels(settings)
    _require_anything(settings)


def _require_anything(settings: Settings) -> None:
    """Raise `ConfigError` if there is no configuration, because no channel could be served."""
    any_enabled = any(section.enabled for section in settings.channels.values())
    is_configured = settings.files or any_enabled or settings.agent.model == OFFLINE
    if not is_configured and chosen_model(settings, os.environ) == OFFLINE:
        raise ConfigError(
            t("nothing is configured yet: no model and no chat app"),
            hint=t(
                "run `kore init`; in a container set {variable} and OPENAI_API_KEY",
                variable=environment_variable(DEFAULT_CHANNEL, "token"),
            ),
        )


async def _serve(
    args: argparse.Namespace,
    settings: Settings,
    home: DataDir,
    log_as: Callable[[Settings], None],
) -> None:
    """Run until SIGTERM or SIGINT, then drain; a second signal exits immediately."""
    stopped = asyncio.Event()
    waiting_task = asyncio.current_task() if args.standby else None

    def stop() -> None:
        if waiting_task is not None:
            waiting_task.cancel()
            return
        if stopped.is_set():
            # No work is lost, because running turns are in the journal.
            os._exit(1)
        stopped.set()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop)
    config = watched_config(args, settings, log_as)
    async with open_app(
        settings,
        home,
        channels=True,
        config=config,
        standby=args.standby,
        has_workers=args.workers is not None,
    ) as app:
        waiting_task = None
        await _announce(app.service)
        background_work = (_keep_workers(args),) if args.workers else ()
        await run_until(stopped, app, *background_work)


async def run_until(
    stopped: asyncio.Event, app: Container, *background_work: Coroutine[Any, Any, None]
) -> None:
    """Run the work of a serving process until it is stopped; SIGHUP reloads the configuration."""
    reloader = app.reloader
    assert reloader is not None, "the configuration is watched"
    if not (sys.stdin and sys.stdin.isatty()):
        # At a terminal, SIGHUP means that the window was closed.
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, reloader.ask)
    freeze_after_start()
    async with asyncio.TaskGroup() as group:
        work = [
            group.create_task(coroutine)
            for coroutine in (reloader.run(), trim_regularly(), *background_work)
        ]
        await stopped.wait()
        for task in work:
            task.cancel()


async def _keep_workers(args: argparse.Namespace) -> None:
    """Keep worker processes running with the same folder and configuration."""
    # With `-m`, Python would import packages from the current folder instead of Kore's own.
    code = _WORKER.format(here=str(Path(__file__).parents[3]))
    command = [sys.executable, "-P", "-c", code, "worker", "--home", str(data_dir_of(args).root)]
    if args.config is not None:
        command += ["--config", str(args.config)]
    if args.quiet:
        command.append("--quiet")
    await keep_workers(command, args.workers)


def watched_config(
    args: argparse.Namespace,
    settings: Settings,
    log_as: Callable[[Settings], None],
    *,
    notifies_owner: bool = True,
) -> WatchedConfig:
    """Return the watched configuration, whose changes also apply to the log."""
    logging_now = settings.logging

    def on_reload(settings: Settings) -> None:
        nonlocal logging_now
        args.crash.redactor.learn(secret_values(settings, os.environ))
        if settings.logging != logging_now:
            log_as(settings)
            logging_now = settings.logging

    return WatchedConfig(sources_of(args), on_reload, notifies_owner)


async def _announce(service: Service) -> None:
    """Log the first message; later messages report only problems."""
    facts = await service.status()
    channels = ", ".join(facts["channels"]) or "none (none is enabled)"
    log.info(
        "Kore %s is running: model %s, channels %s; press Ctrl-C to stop",
        facts["version"],
        facts["model"],
        channels,
    )
    if facts["model_hint"]:
        log.warning("%s", facts["model_hint"])
