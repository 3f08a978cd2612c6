"""How a verb reaches the data: through the process that owns it, or by owning it for a moment."""

import argparse
import asyncio
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent.errors import ConfigError, KoreError
from agent.i18n import t
from gateway.cli.context import data_dir_of, settings_of, sources_of
from gateway.control.client import ControlClient
from gateway.control.service import Service
from gateway.runtime.paths import DataDir

if TYPE_CHECKING:
    from gateway.config import Settings


class NotRunning(KoreError):
    """No Kore is running here."""

    code = "not-running"


@asynccontextmanager
async def open_service(
    settings: "Settings",
    home: DataDir,
    *,
    own: bool = True,
    attended: Sequence[str] = (),
    full_access: str | None = None,
) -> AsyncIterator[Service]:
    """The running Kore's service; without one, this process's own until the block ends.

    With `own` false nothing is opened and `NotRunning` is raised instead. `attended` are lanes of
    one-shot runs that this process waits for. `full_access` is a process's own affair: beside a
    running Kore it raises `ConfigError`.
    """
    client = await ControlClient.connect(home.socket)
    if client is not None and full_access is not None:
        raise ConfigError(
            t("--full-access: Kore is already running and keeps its own rules"),
            hint=t("stop it first, or use another folder (--home DIR)"),
        )
    if client is not None:
        yield client
        return
    if not own:
        raise NotRunning(t("Kore is not running"), hint=t("start it with `kore gateway`"))
    from gateway.app import open_app

    async with open_app(
        settings, home, channels=False, attended=attended, full_access=full_access
    ) as app:
        yield app.service


@asynccontextmanager
async def service_of(args: argparse.Namespace) -> AsyncIterator[Service]:
    """`open_service` for a verb that needs the settings only to own the data.

    A running Kore has settings of its own: a configuration that is wrong by now is a line on
    stderr beside it. Raises `ConfigError` without one.
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


def settings_beside(
    args: argparse.Namespace, overrides: Mapping[str, Any] | None = None
) -> "Settings":
    """`settings_of`; beside a running Kore the last good ones when the configuration is wrong.

    For a verb that shows what they say, too. The project's file counts for nothing then, and
    secrets.json neither: the running Kore has what stood in it.
    """
    try:
        return settings_of(args, overrides)
    except ConfigError as exc:
        if not _runs(args) or (settings := _last_good(args, overrides)) is None:
            raise
        _warn(args, exc)
        return settings


def settings_to_copy(args: argparse.Namespace) -> tuple["Settings", bool]:
    """`settings_beside` for a verb that only asks where things lie, and whether they are whole.

    No gateway runs with others: where the last good file said, else where things lie by default.
    Raises `ConfigError` when there is nothing.
    """
    try:
        return settings_of(args), True
    except ConfigError as exc:
        runs = _runs(args)
        settings = _last_good(args, None) or _last_good(args, None, {})
        if settings is None or not (runs or _has_data(settings)):
            raise
        if runs:
            _warn(args, exc)
        else:
            database, workspace = settings.store.place, settings.agent.workspace
            notice = t(
                "copying {database} and {workspace} from their previous location",
                database=database,
                workspace=workspace,
            )
            _complain(args, exc, notice)
        return settings, False


def _has_data(settings: "Settings") -> bool:
    return settings.store.path is None or settings.store.path.exists()


def _runs(args: argparse.Namespace) -> bool:
    with suppress(KoreError):
        return asyncio.run(ControlClient.connect(data_dir_of(args).socket)) is not None
    return False


def _last_good(
    args: argparse.Namespace,
    overrides: Mapping[str, Any] | None,
    own: Mapping[str, Any] | None = None,
) -> "Settings | None":
    """Those of the last good file, or of `own` in its place. None when they are wrong as well."""
    from gateway.config.json_files.document import read_object

    home = data_dir_of(args)
    with suppress(KoreError):
        sources = sources_of(args)
        drafts: dict[Path, Mapping[str, Any] | None] = {sources.secrets_file: None}
        if sources.project_file.resolve() != sources.own_file.resolve():
            drafts[sources.project_file] = {}
        if (good := read_object(home.last_good_config) if own is None else own) is not None:
            drafts[sources.own_file] = good
        return settings_of(args, overrides, drafts)
    return None


def _warn(args: argparse.Namespace, error: ConfigError) -> None:
    _complain(args, error, t("the running Kore keeps using the last valid configuration"))


def _complain(args: argparse.Namespace, error: ConfigError, notice: str) -> None:
    from gateway.cli.program import complain

    complain(error, args.crash.redactor.clean)
    print(f"      {notice}", file=sys.stderr)
