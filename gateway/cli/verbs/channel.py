"""Command `kore channel`: accounts on chat platforms."""

import argparse
import asyncio
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agent.errors import ConfigError, KoreError
from agent.i18n import t
from gateway.channels.spec import ChannelIdentity
from gateway.channels.table import all_specs, built_in_specs, find_spec
from gateway.cli.folders import config_path, data_dir_of
from gateway.cli.onboarding.channel_setup import ChannelSetup, ConfigChange, SetupResult
from gateway.cli.onboarding.dialogue import Back, Dialogue, Skip, is_interactive
from gateway.cli.onboarding.owner import Candidate, await_owner, invitation, show_invitation
from gateway.cli.output import print_json, print_table
from gateway.cli.settings import settings_of
from gateway.cli.verbs import gateway
from gateway.config import Settings
from gateway.config.channel_section import environment_variable
from gateway.config.editing import change_config, change_secrets
from gateway.config.json_files.document import read_object
from gateway.control.client import ControlClient
from gateway.core.channel_table import DEFAULT_CHANNEL
from gateway.runtime.log_setup import open_logs
from gateway.runtime.paths import DataDir

_EXAMPLE_NAME = "echo"


def run(args: argparse.Namespace) -> int:
    match args.action:
        case "list":
            return _list(args)
        case "test":
            return _test(args)
        case "remove":
            return _remove(args)
        case "new":
            return _new(args)
    return add(args)


def add(args: argparse.Namespace) -> int:
    """Connect an account: credentials, owner and next steps. Raises `KoreError`."""
    setup, dialogue = _setup(args), Dialogue()
    try:
        connection, is_new = _connect(args, setup, dialogue)
    except (Back, Skip):
        dialogue.say(t("Skipped; nothing was connected."))
        return 0
    identity = connection.identity
    if is_new:
        home = data_dir_of(args)
        path = config_path(args, home)
        home.ensure()
        _apply(setup.addition(connection, read_object(path) or {}), path, home)
        if identity is not None:
            dialogue.say(t("{name} is connected.", name=identity.label))
    if identity is None:
        title, name = setup.spec.title, setup.spec.name
        dialogue.say(
            t("The token is saved but not verified: {title} could not be reached.", title=title)
        )
        dialogue.say(
            t("When the network is back, run `kore channel add {name}` to own it.", name=name)
        )
        return 0
    return _introduce(args, setup, identity, dialogue)


def _setup(args: argparse.Namespace) -> ChannelSetup:
    return ChannelSetup(find_spec(args.channel), settings_of(args), args.name)


def _connect(
    args: argparse.Namespace, setup: ChannelSetup, dialogue: Dialogue
) -> tuple[SetupResult, bool]:
    """Return the account's connection, and whether it has to be saved."""
    current = setup.configured()
    if args.token_env:
        return setup.from_variable(args.token_env), True
    if is_interactive():
        question = t("An account is already connected. Replace it?")
        if current is not None and not dialogue.confirm(question, default=False):
            return SetupResult((), current, setup.identify(current)), False
        return setup.ask(dialogue), True
    if lines := [] if sys.stdin.isatty() else sys.stdin.read().splitlines():
        return setup.from_lines(lines), True
    if current is not None:
        return SetupResult((), current, setup.identify(current)), False
    exported = setup.exported()
    if setup.spec.steps and not exported:
        variable = setup.variable(setup.spec.steps[0])
        raise ConfigError(
            t("kore channel add asks for the account's token and needs a terminal"),
            hint=t(
                "pass it on stdin, or name its variable: --token-env {variable}", variable=variable
            ),
        )
    return setup.check(exported), True


def _apply(change: ConfigChange, path: Path, home: DataDir) -> None:
    """Write the secret first, because a reference to a missing secret would stop the gateway."""
    new = {name: value for name, value in change.secrets.items() if value is not None}
    change_secrets(home.secrets, new)
    change_config(path, change.config)
    change_secrets(home.secrets, {name: None for name in change.secrets if name not in new})


def _introduce(
    args: argparse.Namespace, setup: ChannelSetup, identity: ChannelIdentity, dialogue: Dialogue
) -> int:
    """Find the owner, and print the next steps."""
    home = data_dir_of(args)
    # Use any free port, because no other program has to find this temporary gateway.
    settings = settings_of(args, {"http.port": 0})
    candidate = Candidate(setup.spec, identity, args.name or identity.account)
    if args.no_wait:
        code = asyncio.run(invitation(settings, home, candidate))
        if code:
            show_invitation(candidate, code, dialogue.say)
    else:
        dialogue.say(_wait_for_owner(args, settings, home, candidate, dialogue))
    states = asyncio.run(_states(home))
    if states is not None:
        is_connected = candidate.address in states
        dialogue.say(
            t("The running gateway uses it now.")
            if is_connected
            else t("Next: restart the running gateway; it does not know this account yet.")
        )
        return 0
    dialogue.say(t("Next: start `kore gateway`; `kore service install` keeps it running."))
    return 0


def _wait_for_owner(
    args: argparse.Namespace,
    settings: Settings,
    home: DataDir,
    candidate: Candidate,
    dialogue: Dialogue,
) -> str:
    redactor = args.crash.redactor
    open_logs(settings, redactor, terminal=False, default_file=home.logs / "kore.log")
    try:
        return asyncio.run(await_owner(settings, home, candidate, dialogue.say))
    except KeyboardInterrupt:
        dialogue.say()
        return t(
            "It has no owner yet. The link is still valid: start `kore gateway`, then open it."
        )


def may_serve(args: argparse.Namespace) -> bool:
    """Return whether accounts are connected but no gateway is running."""
    return bool(_accounts(settings_of(args))) and asyncio.run(_states(data_dir_of(args))) is None


def serve(args: argparse.Namespace) -> int:
    """Run the gateway here."""
    args.quiet = args.full_access = args.standby = False
    args.workers = None
    return gateway.run(args)


def _list(args: argparse.Namespace) -> int:
    settings, home = settings_of(args), data_dir_of(args)
    states = asyncio.run(_states(home))
    rows = []
    for channel, account in _accounts(settings):
        state = states.get(f"{channel}:{account}") if states is not None else None
        state_name, error = (
            (state["state"], state["last_error"]) if state else ("not running", None)
        )
        rows.append({"channel": channel, "account": account, "state": state_name, "trouble": error})
    if args.json:
        print_json(rows)
    elif rows:
        cells = [
            [str(fact or "") for fact in {**row, "state": t(str(row["state"]))}.values()]
            for row in rows
        ]
        print_table(tuple(rows[0]), cells)
    else:
        print(
            t(
                "No channel is connected. To connect one: `kore channel add {name}`",
                name=DEFAULT_CHANNEL,
            )
        )
    return 0


def _accounts(settings: Settings) -> list[tuple[str, str]]:
    """Return the enabled channels with their accounts."""
    accounts = []
    for spec in all_specs(settings):
        section = spec.section_of(settings)
        if section.enabled:
            names = (spec.first_account(section), *(further.name for further in section.accounts))
            accounts += [(spec.name, name) for name in names]
    return accounts


async def _states(home: DataDir) -> Mapping[str, Any] | None:
    """Return the states of the running Kore's channels; None if it is not running."""
    client = await ControlClient.connect(home.socket)
    return None if client is None else (await client.status())["channels"]


def _test(args: argparse.Namespace) -> int:
    setup = _setup(args)
    identity = setup.identify(setup.require_configured())
    if args.json:
        print_json({"ok": True, **identity.facts})
    else:
        print(t("{name} answers: {link}", name=identity.label, link=identity.link or ""))
    return 0


def _remove(args: argparse.Namespace) -> int:
    home, setup = data_dir_of(args), _setup(args)
    setup.require_configured()
    path = config_path(args, home)
    if not args.yes:
        if not is_interactive():
            raise ConfigError(
                t("kore channel remove asks for confirmation and needs a terminal"), hint="--yes"
            )
        if not Dialogue().confirm(t("Disconnect it and forget its token?"), default=False):
            return 0
    _apply(setup.removal(read_object(path) or {}), path, home)
    print(t("Disconnected. A running gateway keeps using it until it is restarted."))
    for step in setup.spec.steps if args.name is None else ():
        variable = environment_variable(setup.spec.name, step.key)
        if os.environ.get(variable):
            print(t("{name} is still exported: unset it too.", name=variable))
    return 0


def _new(args: argparse.Namespace) -> int:
    if args.channel in built_in_specs():
        raise ConfigError(t("{name} is one of Kore's built-in channels", name=args.channel))
    folder = args.folder or Path(f"kore-channel-{args.channel}")
    for path in write_skeleton(args.channel, folder):
        print(path)
    print(
        t(
            "Next: `pip install -e {folder}`, then `kore channel add {name}`.",
            folder=folder,
            name=args.channel,
        )
    )
    return 0


def write_skeleton(name: str, folder: Path) -> list[Path]:
    """Write a new package for the channel `name` and return its files.

    Raises `KoreError` if the folder exists or cannot be written.
    """
    words = name.split("_")
    paths = []
    try:
        folder.mkdir(parents=True)
        for source in sorted(_example_folder().iterdir()):
            if not source.is_file():
                continue
            text = source.read_text("utf-8").replace(_EXAMPLE_NAME, name)
            text = text.replace(f'"{_EXAMPLE_NAME.title()}"', f'"{" ".join(words).title()}"')
            text = text.replace(_EXAMPLE_NAME.title(), "".join(word.title() for word in words))
            target = folder / source.name.replace(_EXAMPLE_NAME, name)
            target.write_text(text, "utf-8")
            paths.append(target)
    except OSError as exc:
        raise KoreError(
            t("{path}: cannot be written: {reason}", path=folder, reason=exc.strerror)
        ) from None
    return paths


def _example_folder() -> Path:
    """Return the example folder: inside the package in a wheel, next to it in a checkout."""
    packaged = Path(__file__).parents[2] / "channel_skeleton"
    return (
        packaged if packaged.is_dir() else Path(__file__).parents[3] / "examples" / "echo_channel"
    )
