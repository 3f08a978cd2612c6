"""Access to the data for verbs, through its owner or as a temporary owner."""

import argparse
import asyncio
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from agent.errors import ConfigError, KoreError
from agent.i18n import t
from gateway.cli.folders import data_dir_of
from gateway.cli.program import complain
from gateway.cli.settings import settings_of, sources_of
from gateway.config import Settings
from gateway.config.json_files.document import read_object
from gateway.control.client import ControlClient
from gateway.control.service import Service
from gateway.runtime.paths import DataDir


class NotRunning(KoreError):
    """Raised when Kore is not running."""

    code = "not-running"


@asynccontextmanager
async def open_service(
    settings: Settings,
    home: DataDir,
    *,
    may_own: bool = True,
    attended: Sequence[str] = (),
    full_access: str | None = None,
) -> AsyncIterator[Service]:
    """Yield the service of the running Kore, else of this process, while the context is open.

    Without `may_own`, `NotRunning` is raised instead of opening the data. `attended` are lanes of
    one-shot runs that this process waits for. `full_access` and a folder that is trusted for this
    run apply to this process only: if Kore is running, they raise `ConfigError`.
    """
    client = await ControlClient.connect(home.socket)
    flag = "--full-access" if full_access is not None else "--trust"
    if client is not None and (full_access is not None or settings.trusted_for_run is not None):
        raise ConfigError(
            t("{flag}: Kore is already running and keeps its own rules", flag=flag),
            hint=t("stop it first, or use another folder (--home DIR)"),
        )
    if client is not None:
        yield client
        return
    if not may_own:
        raise NotRunning(t("Kore is not running"), hint=t("start it with `kore gateway`"))
    from gateway.app import open_app

    async with open_app(
        settings, home, channels=False, attended=attended, full_access=full_access
    ) as app:
        yield app.service


@asynccontextmanager
async def service_of(args: argparse.Namespace) -> AsyncIterator[Service]:
    """Open the service for a verb that needs the settings only to own the data.

    A running Kore has its own settings, so an invalid configuration is only reported on stderr.
    Without a running Kore it raises `ConfigError`.
    """
    home = data_dir_of(args)
    client = await ControlClient.connect(home.socket)
    if client is None:
        async with open_service(settings_of(args), home) as service:
            yield service
        return
    try:
        settings_of(args)
    except ConfigError as exc:
        _warn(args, exc)
    yield client


def settings_or_last_valid(
    args: argparse.Namespace, overrides: Mapping[str, Any] | None = None
) -> Settings:
    """Return `settings_of`, or the last valid settings if Kore is running.

    For verbs that also show settings. In the second case, the project's file and secrets.json are
    ignored, because the running Kore already has their values.
    """
    try:
        return settings_of(args, overrides)
    except ConfigError as exc:
        if not _is_running(args) or (settings := _last_valid(args, overrides)) is None:
            raise
        _warn(args, exc)
        return settings


def settings_to_copy(args: argparse.Namespace) -> tuple[Settings, bool]:
    """Return the settings for a verb that only needs paths, and whether they are valid.

    If they are not, the paths come from the last valid file or from the defaults, because a gateway
    runs with one of these. Raises `ConfigError` without data.
    """
    try:
        return settings_of(args), True
    except ConfigError as exc:
        is_running = _is_running(args)
        settings = _last_valid(args, None) or _last_valid(args, None, {})
        if settings is None or not (is_running or _has_data(settings)):
            raise
        if is_running:
            _warn(args, exc)
        else:
            database, workspace = settings.store.place, settings.agent.workspace
            notice = t(
                "copying {database} and {workspace} from their previous location",
                database=database,
                workspace=workspace,
            )
            _report(args, exc, notice)
        return settings, False


def _has_data(settings: Settings) -> bool:
    return settings.store.path is None or settings.store.path.exists()


def _is_running(args: argparse.Namespace) -> bool:
    with suppress(KoreError):
        return asyncio.run(ControlClient.connect(data_dir_of(args).socket)) is not None
    return False


def _last_valid(
    args: argparse.Namespace,
    overrides: Mapping[str, Any] | None,
    replacement: Mapping[str, Any] | None = None,
) -> Settings | None:
    """Return the settings with the last valid file, or with `replacement` instead.

    Returns None if these are invalid as well.
    """
    home = data_dir_of(args)
    with suppress(KoreError):
        sources = sources_of(args)
        drafts: dict[Path, Mapping[str, Any] | None] = {sources.secrets_file: None}
        if sources.project_file.resolve() != sources.own_file.resolve():
            drafts[sources.project_file] = {}
        if (
            content := read_object(home.last_good_config) if replacement is None else replacement
        ) is not None:
            drafts[sources.own_file] = content
        return settings_of(args, overrides, drafts)
    return None


def _warn(args: argparse.Namespace, error: ConfigError) -> None:
    _report(args, error, t("the running Kore keeps using the last valid configuration"))


def _report(args: argparse.Namespace, error: ConfigError, notice: str) -> None:
    complain(error, args.crash.redactor.clean)
    print(f"      {notice}", file=sys.stderr)
