"""`kore init`: a first configuration and workspace; what exists is kept."""

import argparse
import asyncio
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent.errors import ConfigError
from agent.i18n import t
from agent.providers.registry import OFFLINE, default_model
from agent.providers.vendors import VENDORS
from agent.version import VERSION
from gateway.cli.context import data_dir_of, settings_of
from gateway.runtime.paths import DataDir, write_private

if TYPE_CHECKING:
    from gateway.config import Settings


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-y", "--yes", action="store_true", help="ask nothing")
    parser.add_argument(
        "--live", action="store_true", help="try the key with one tiny question to the model"
    )


def run(args: argparse.Namespace) -> int:
    from gateway.cli.onboarding.dialogue import somebody_is_there
    from gateway.cli.verbs.channel import config_path

    home = data_dir_of(args)
    path = config_path(args, home)
    if not args.yes:
        if not somebody_is_there():
            raise ConfigError(
                t("kore init asks questions, and nobody is there"), hint="kore init --yes"
            )
        return _converse(args, home, path)
    home.ensure()
    if path.exists():
        print(t("{path}: exists already, left as it is", path=path))
    else:
        content = starter_config(_found_model())
        try:
            write_private(path, json.dumps(content, indent=2, ensure_ascii=False) + "\n")
        except OSError as exc:
            raise ConfigError(f"{path}: cannot be written: {exc.strerror}") from None
        print(t("{path}: written", path=path))
    return _finish(args)


def _converse(args: argparse.Namespace, home: DataDir, path: Path) -> int:
    """Ask, then write, then offer Telegram."""
    from gateway.cli.onboarding.dialogue import Dialogue
    from gateway.cli.onboarding.wizard import SetupContext, connect_telegram, converse
    from gateway.config.json_document import read_object

    args.live = False
    # A file that is named but not there is about to be made.
    settings = settings_of(args) if path.exists() else _without_a_file(args)
    talk = Dialogue()
    talk.say(t("Kore {version}: a few questions, most of them answered by Enter.", version=VERSION))
    try:
        plan = converse(talk, SetupContext(home, settings, read_object(path) or {}))
    except KeyboardInterrupt:
        talk.say("\n" + t("Nothing was written."))
        raise
    plan.write(home, path, settings.agent.workspace)
    talk.say()
    talk.say(t("Written: {path} and {workspace}", path=path, workspace=settings.agent.workspace))
    return connect_telegram(talk, args)


def _without_a_file(args: argparse.Namespace) -> "Settings":
    named, args.config = args.config, None
    try:
        return settings_of(args)
    finally:
        args.config = named


def starter_config(model: str | None) -> dict[str, Any]:
    """A small config.json; a key is a reference to the vendor's variable, never the key itself."""
    entries = []
    if model is not None:
        entry = {"model_name": "default", "model": model}
        variables = VENDORS[model.partition("/")[0]].key_variables
        if variables:
            entry["api_key"] = f"${{{variables[0]}}}"
        entries.append(entry)
    return {"agent": {"model": "default"}, "model_list": entries}


def _found_model() -> str | None:
    """The model of the first vendor whose key is in the environment."""
    found = default_model(os.environ)
    return None if found == OFFLINE else found


def _finish(args: argparse.Namespace) -> int:
    from gateway.config.model_entries import chosen_model, model_list
    from gateway.runtime.workspace import ensure_workspace

    settings = settings_of(args)
    made = ensure_workspace(settings.agent.workspace)
    path = settings.agent.workspace
    print(
        t("{path}: made", path=path)
        if made
        else t("{path}: exists already, left as it is", path=path)
    )
    chosen = chosen_model(settings, os.environ)
    if chosen == OFFLINE:
        print(
            t("no key was found: `kore agent` answers with the offline stand-in until there is one")
        )
    elif args.live:
        from agent.providers.registry import resolve_model
        from gateway.ops.credential_checks import check_model_key

        print(asyncio.run(check_model_key(resolve_model(chosen, model_list(settings), os.environ))))
    print(t("next: kore agent"))
    return 0
