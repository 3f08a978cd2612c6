"""Command `kore doctor`: find problems and suggest fixes."""

import argparse
import asyncio
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from agent.errors import ConfigError, KoreError
from agent.i18n import t
from agent.providers.registry import OFFLINE, resolve_model
from agent.text.display_width import wrap_paragraphs
from gateway.channels.spec import ChannelSpec
from gateway.channels.table import all_specs
from gateway.cli.folders import config_path, data_dir_of
from gateway.cli.onboarding.dialogue import Back, Dialogue, Skip, is_interactive
from gateway.cli.output import clean as printable
from gateway.cli.output import print_json
from gateway.cli.settings import settings_of
from gateway.config import Settings
from gateway.config.model_entries import chosen_model, local_models, model_list
from gateway.control.client import ControlClient
from gateway.ops.credential_checks import check_model_key
from gateway.ops.doctor import checks, configuration, storage
from gateway.ops.doctor.checks import Check
from gateway.ops.doctor.repairs import find_repairs
from gateway.runtime.paths import DataDir
from gateway.store.files.file_store import SharedFiles
from gateway.store.files.opening import open_shared_files
from gateway.store.opening import store_cipher, whole_postgres
from gateway.store.sqlite.migrator import check_file

_MARKS = {"ok": "ok  ", "warn": "warn", "fail": "FAIL"}
_COLOURS = {"ok": "\x1b[32m", "warn": "\x1b[33m", "fail": "\x1b[1;31m"}
_MARGIN = 24


def run(args: argparse.Namespace) -> int:
    if args.fix:
        _repair(args)
    checked = asyncio.run(_checks(args))
    clean = args.crash.redactor.clean_data
    results = [Check(**clean(asdict(check))) for check in checked]
    worst = "fail" if any(check.state == "fail" for check in results) else "ok"
    if args.json:
        print_json({"ok": worst == "ok", "checks": [asdict(check) for check in results]})
    else:
        columns = os.get_terminal_size(1).columns if os.isatty(1) else 0
        for check in results:
            print(_render(check, columns))
    return 1 if worst == "fail" else 0


def _render(check: Check, columns: int) -> str:
    """Return a check as aligned lines; `columns` is 0 without a terminal."""
    texts = [check.detail, check.fix] if check.state != "ok" and check.fix else [check.detail]
    lines = "\n".join(f"{'':{_MARGIN}}{printable(text)}" for text in texts)
    body = wrap_paragraphs(lines, columns) if columns else lines
    mark = _MARKS[check.state]
    if columns and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb":
        mark = f"{_COLOURS[check.state]}{mark}\x1b[0m"
    return f"{mark}  {check.name:<{_MARGIN - 6}}{body[_MARGIN:]}"


def _repair(args: argparse.Namespace) -> None:
    """Apply each fix after a confirmation, which `--yes` skips."""
    if not args.yes and not is_interactive():
        sentence = t("kore doctor --fix asks for confirmation and needs a terminal")
        raise ConfigError(sentence, hint="kore doctor --fix --yes")
    home, dialogue = data_dir_of(args), Dialogue()
    try:
        workspace = settings_of(args).agent.workspace
    except ConfigError:
        workspace = None
    for remedy in find_repairs(home, config_path(args, home), workspace):
        sentence = printable(args.crash.redactor.clean(remedy.sentence))
        try:
            is_confirmed = args.yes or dialogue.confirm(t("{what}?", what=sentence))
        except (Back, Skip):
            continue
        if is_confirmed:
            remedy.act()
            print(t("fixed: {what}", what=sentence), file=sys.stderr)


async def _checks(args: argparse.Namespace) -> list[Check]:
    home = data_dir_of(args)
    first = [checks.check_python(), storage.check_home(home)]
    try:
        settings = settings_of(args)
    except ConfigError as exc:
        lines = str(exc).splitlines()
        failures = [Check("config", "fail", line, exc.hint) for line in lines]
        return [*first, *failures, checks.check_packages(), checks.check_clock(home)]
    files = ", ".join(map(str, settings.files)) or t("no file; using the defaults")
    results = [*first, Check("config", "ok", files), *configuration.check_imports(settings)]
    results += _local(settings, home, await local_models(settings))
    skew_s = None
    if args.live:
        results.append(await _ask_model(settings))
        answers = [await _ask_channel(spec, settings) for spec in all_specs(settings)]
        results += [check for check, _ in answers]
        skew_s = next((skew_s for _, skew_s in answers if skew_s is not None), None)
    return [*results, checks.check_clock(home, skew_s), *await _owner(home)]


def _local(settings: Settings, home: DataDir, models: Sequence[str]) -> list[Check]:
    """Return the checks that need no network; `models` are those of servers on this machine."""
    return [
        configuration.check_model(settings, os.environ, models),
        configuration.check_secrets(settings),
        configuration.check_limits(settings, os.environ),
        configuration.check_policy(settings),
        configuration.check_hooks(settings, home),
        configuration.check_language_servers(settings, home),
        *configuration.check_channels(settings, home),
        _check_store(settings),
        *([_check_key(settings)] if settings.store.encryption_key_env else []),
        storage.check_files(settings),
        *(
            [storage.check_shared_files(lambda: _shared_files(settings))]
            if settings.store.files
            else []
        ),
        checks.check_disk(settings.store.path.parent if settings.store.path else home.root),
        *([checks.check_watches()] if settings.context.watch else []),
        checks.check_packages(),
        configuration.check_sandbox(settings, home),
    ]


def _check_store(settings: Settings) -> Check:
    if settings.store.path is not None:
        return storage.check_database(settings.store.path, check_file)
    return storage.check_server(
        settings.store.place, lambda: whole_postgres(settings.store.url).schema()
    )


def _check_key(settings: Settings) -> Check:
    """Check that the key of the database is set and valid."""
    try:
        store_cipher(settings, os.environ)
    except KoreError as exc:
        return Check("encryption", "fail", str(exc), exc.hint)
    name = settings.store.encryption_key_env
    return Check("encryption", "ok", t("with the key in {name}", name=name))


def _shared_files(settings: Settings) -> SharedFiles:
    """Open the shared files. Raises `ConfigError`."""
    cipher = store_cipher(settings, os.environ)
    return open_shared_files(str(settings.store.files), cipher, is_patient=False)


async def _ask_model(settings: Settings) -> Check:
    try:
        config = resolve_model(chosen_model(settings, os.environ), model_list(settings), os.environ)
        if config.model == OFFLINE:
            return Check("model call", "ok", t("not needed offline"))
        return Check("model call", "ok", await check_model_key(config))
    except KoreError as exc:
        return Check("model call", "fail", str(exc), exc.hint or t("check the key and the network"))


async def _ask_channel(spec: ChannelSpec[Any], settings: Settings) -> tuple[Check, float | None]:
    """Check the credentials of a channel; also return the platform's clock minus ours."""
    name, section = f"{spec.name} call", spec.section_of(settings)
    if not section.enabled or not section.has_credentials or spec.identify is None:
        return Check(name, "ok", t("not tested: {title} is not enabled", title=spec.title)), None
    try:
        identity = await spec.identify(section)
    except KoreError as exc:
        return Check(name, "fail", str(exc), exc.hint), None
    return Check(name, "ok", identity.label + identity.route), identity.skew_s


async def _owner(home: DataDir) -> list[Check]:
    """Check the process that owns the data, and the failures of its turns."""
    try:
        service = await ControlClient.connect(home.socket)
        status = None if service is None else await service.status()
    except KoreError as exc:
        return [Check("owner", "fail", str(exc), exc.hint)]
    if status is None:
        return [checks.check_owner(home, running=False)]
    return [checks.check_owner(home, running=True), checks.check_turns(status)]
