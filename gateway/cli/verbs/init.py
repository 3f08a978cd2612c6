"""Command `kore init`: create a configuration and a workspace, preserving existing ones."""

import argparse
import asyncio
import json
import os
from pathlib import Path
from typing import Any

from agent.errors import ConfigError, KoreError
from agent.i18n import t
from agent.providers.registry import OFFLINE, default_model, resolve_model
from agent.providers.vendors import VENDORS
from agent.version import VERSION
from gateway.channels.table import built_in_specs
from gateway.cli.folders import config_path, data_dir_of
from gateway.cli.onboarding.dialogue import Back, Dialogue, Skip, is_interactive
from gateway.cli.onboarding.wizard import SetupContext, converse
from gateway.cli.settings import settings_of
from gateway.cli.verbs import channel
from gateway.config import Settings
from gateway.config.json_files.document import read_object
from gateway.config.model_entries import chosen_model, model_list
from gateway.core.channel_table import DEFAULT_CHANNEL
from gateway.ops.credential_checks import check_model_key
from gateway.runtime.paths import DataDir, write_private
from gateway.runtime.workspace import ensure_workspace


def run(args: argparse.Namespace) -> int:
    home = data_dir_of(args)
    path = config_path(args, home)
    if not args.yes:
        if not is_interactive():
            raise ConfigError(
                t("kore init is interactive and needs a terminal"), hint="kore init --yes"
            )
        return _converse(args, home, path)
    home.ensure()
    if path.exists():
        print(t("{path}: already exists, unchanged", path=path))
    else:
        content = starter_config(_model_from_environment())
        try:
            write_private(path, json.dumps(content, indent=2, ensure_ascii=False) + "\n")
        except OSError as exc:
            raise ConfigError(
                t("{path}: cannot be written: {reason}", path=path, reason=exc.strerror)
            ) from None
        print(t("{path}: written", path=path))
    return _finish(args)


def _converse(args: argparse.Namespace, home: DataDir, path: Path) -> int:
    """Ask, write the answers, and offer to connect a channel."""
    args.live = False
    # A named file that does not exist is about to be created.
    settings = settings_of(args) if path.exists() else _settings_without_file(args)
    dialogue = Dialogue()
    dialogue.say(
        t("Kore {version}: a few questions; press Enter for the defaults.", version=VERSION)
    )
    try:
        plan = converse(dialogue, SetupContext(home, settings, read_object(path) or {}))
    except KeyboardInterrupt:
        dialogue.say("\n" + t("Nothing was written."))
        raise
    plan.write(home, path, settings.agent.workspace)
    dialogue.say()
    dialogue.say(
        t("Written: {path} and {workspace}", path=path, workspace=settings.agent.workspace)
    )
    return _connect_channel(dialogue, args)


def _connect_channel(dialogue: Dialogue, args: argparse.Namespace) -> int:
    """Offer to connect a channel and start the gateway; always print the next steps."""
    dialogue.say()
    try:
        names = list(built_in_specs())
        titles = [spec.title for spec in built_in_specs().values()]
        number = dialogue.choose(t("Connect a chat app now?"), [*titles, t("not now")])
        if number < len(names):
            args.channel, args.token_env, args.name, args.no_wait = names[number], None, None, False
            channel.add(args)
    except (Back, Skip):
        dialogue.say(t("Unchanged."))
    except KoreError as exc:
        dialogue.say(f"  {exc}" + (f"; {exc.hint}" if exc.hint else ""))
    except KeyboardInterrupt:
        dialogue.say()
    _print_next_steps(dialogue, args)
    try:
        may_start = channel.may_serve(args) and dialogue.confirm(t("Start it here now?"))
    except (Back, Skip):
        may_start = False
    return channel.serve(args) if may_start else 0


def _print_next_steps(dialogue: Dialogue, args: argparse.Namespace) -> None:
    """Print the features that work now, with their commands."""
    settings = settings_of(args)
    name = chosen_model(settings, os.environ)
    model = next((config.model for config in model_list(settings) if config.name == name), name)
    dialogue.say()
    dialogue.say(t("Ready to use:"))
    dialogue.say("  " + t("`kore agent`: chat here with {model}", model=model))
    if model == OFFLINE:
        dialogue.say("  " + t("No model is set up yet: run `kore init` again to choose one."))
    titles = [
        built_in_specs()[name].title
        for name, section in settings.channels.items()
        if section.enabled and section.has_credentials
    ]
    if titles:
        line = t(
            "`kore gateway`: answer in {titles}; `kore service install` keeps it running",
            titles=", ".join(titles),
        )
    else:
        line = t("No chat app is connected yet: `kore channel add {name}`.", name=DEFAULT_CHANNEL)
    dialogue.say("  " + line)


def _settings_without_file(args: argparse.Namespace) -> Settings:
    config, args.config = args.config, None
    try:
        return settings_of(args)
    finally:
        args.config = config


def starter_config(model: str | None) -> dict[str, Any]:
    """Return a minimal configuration, which refers to an API key by its environment variable."""
    entries = []
    if model is not None:
        entry = {"model_name": "default", "model": model}
        variables = VENDORS[model.partition("/")[0]].key_variables
        if variables:
            entry["api_key"] = f"${{{variables[0]}}}"
        entries.append(entry)
    return {"agent": {"model": "default"}, "model_list": entries}


def _model_from_environment() -> str | None:
    """Return the model of the first vendor with a key in the environment."""
    model = default_model(os.environ)
    return None if model == OFFLINE else model


def _finish(args: argparse.Namespace) -> int:
    settings = settings_of(args)
    is_new = ensure_workspace(settings.agent.workspace)
    path = settings.agent.workspace
    print(
        t("{path}: created", path=path)
        if is_new
        else t("{path}: already exists, unchanged", path=path)
    )
    model = chosen_model(settings, os.environ)
    if model == OFFLINE:
        print(t("no API key found: until there is one, `kore agent` uses the offline stand-in"))
    elif args.live:
        print(asyncio.run(check_model_key(resolve_model(model, model_list(settings), os.environ))))
    print(t("next: kore agent"))
    return 0
