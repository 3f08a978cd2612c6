"""`kore init`: a first configuration and workspace; what exists is never overwritten."""

import argparse
import asyncio
import json
import os
import sys
from typing import Any

from agent.errors import ConfigError, KoreError
from agent.providers.routing import OFFLINE, default_model
from agent.providers.vendors import VENDORS
from gateway.cli.basis import home_of
from gateway.home import Home, write_private

_TOKEN = "TELEGRAM_BOT_TOKEN"  # noqa: S105 - the name of a variable


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-y", "--yes", action="store_true", help="ask nothing")
    parser.add_argument(
        "--live", action="store_true", help="try the key with one tiny question to the model"
    )


def run(args: argparse.Namespace) -> int:
    home = home_of(args)
    path = args.config or home.config
    asking = not args.yes and not path.exists()
    if asking and not sys.stdin.isatty():
        raise ConfigError("kore init asks questions, and nobody is there", hint="kore init --yes")
    home.ensure()
    if path.exists():
        print(f"{path}: exists already, left as it is (move it away to begin anew)")
    else:
        content = _ask(home) if asking else starter_config(_found_model(), telegram=False)
        try:
            write_private(path, json.dumps(content, indent=2, ensure_ascii=False) + "\n")
        except OSError as exc:
            raise ConfigError(f"{path}: cannot be written: {exc.strerror}") from None
        print(f"{path}: written")
    return _finish(args)


def starter_config(model: str | None, *, telegram: bool) -> dict[str, Any]:
    """A small config.json; a key is a reference to the vendor's variable, never the key itself."""
    entries = []
    if model is not None:
        entry = {"model_name": "default", "model": model}
        variables = VENDORS[model.partition("/")[0]].key_variables
        if variables:
            entry["api_key"] = f"${{{variables[0]}}}"
        entries.append(entry)
    return {
        "agent": {"model": "default"},
        "model_list": entries,
        "telegram": {
            "enabled": telegram,
            "token": f"${{{_TOKEN}}}" if telegram else "",
            "allow_from": [],
        },
    }


def _found_model() -> str | None:
    """The model of the first vendor whose key is in the environment."""
    found = default_model(os.environ)
    return None if found == OFFLINE else found


def _finish(args: argparse.Namespace) -> int:
    from gateway.cli.basis import settings_of
    from gateway.settings.models import chosen_model, model_list
    from gateway.workspace import ensure_workspace

    settings = settings_of(args)
    made = ensure_workspace(settings.agent.workspace)
    print(f"{settings.agent.workspace}: {'made' if made else 'exists already, left as it is'}")
    chosen = chosen_model(settings, os.environ)
    if chosen == OFFLINE:
        print("no key was found: `kore agent` answers with the offline stand-in until there is one")
    elif args.live:
        from agent.providers.routing import resolve
        from gateway.live import try_model

        print(asyncio.run(try_model(resolve(chosen, model_list(settings), os.environ))))
    print("next: kore agent")
    return 0


def _ask(home: Home) -> dict[str, Any]:
    vendors = [vendor for vendor in VENDORS.values() if vendor.default_model]
    print("Which provider? " + ", ".join(vendor.name for vendor in vendors))
    found = _found_model()
    wanted = _line(f"provider [{found or 'none for now'}]: ")
    model = found
    if wanted:
        vendor = VENDORS.get(wanted.partition("/")[0])
        if vendor is None:
            raise ConfigError(f"{wanted!r} is not a provider that Kore knows")
        model = wanted if "/" in wanted else f"{wanted}/{vendor.default_model or ''}"
        if not model.partition("/")[2]:
            raise ConfigError(f"{wanted} has no default model", hint=f"type {wanted}/MODEL")
        _keep_key(home, vendor.key_variables[:1])
    token = _secret("Telegram bot token (empty: no Telegram): ")
    if token:
        _keep(home, {_TOKEN: token})
    return starter_config(model, telegram=bool(token))


def _keep_key(home: Home, variables: tuple[str, ...]) -> None:
    for name in variables:
        if os.environ.get(name):
            print(f"the key is in the environment variable {name}")
        elif key := _secret(f"key (kept in {home.secrets}; empty: set {name} yourself): "):
            _keep(home, {name: key})


def _keep(home: Home, more: dict[str, str]) -> None:
    """Add to secrets.json, by a new file in its place."""
    from gateway.settings.references import read_secrets

    fresh = home.secrets.with_suffix(".new")
    fresh.unlink(missing_ok=True)
    write_private(fresh, json.dumps({**read_secrets(home.secrets), **more}, indent=2) + "\n")
    fresh.replace(home.secrets)


def _line(prompt: str) -> str:
    try:
        return input(prompt).strip()
    except EOFError:
        raise KoreError("the input ended before everything was answered") from None


def _secret(prompt: str) -> str:
    from getpass import getpass

    try:
        return getpass(prompt).strip()
    except EOFError:
        raise KoreError("the input ended before everything was answered") from None
