"""`kore channel`: the chats that Kore can be reached in."""

import argparse
import asyncio
import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent.errors import ConfigError, KoreError
from agent.i18n import t
from gateway.channels.telegram.spec import SPEC as TELEGRAM
from gateway.cli.context import config_path, data_dir_of, settings_of
from gateway.cli.output import print_json, print_table
from gateway.config.json_files.document import read_object

if TYPE_CHECKING:
    from gateway.cli.onboarding.dialogue import Dialogue
    from gateway.cli.onboarding.owner import BotAccount
    from gateway.cli.onboarding.telegram import BotChange, Token
    from gateway.config import Settings
    from gateway.ops.credential_checks import BotIdentity
    from gateway.runtime.paths import DataDir


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True, metavar="add|list|remove|test")
    add = actions.add_parser("add", help="connect a bot and become its owner")
    add.add_argument(
        "--token-env", metavar="NAME", help="read the token from this environment variable"
    )
    add.add_argument(
        "--no-wait", action="store_true", help="print the link and do not wait until it is opened"
    )
    listing = actions.add_parser("list", help="list channels and their status")
    listing.add_argument("--json", action="store_true", help="print JSON")
    remove = actions.add_parser("remove", help="disconnect a bot and forget its token")
    remove.add_argument("-y", "--yes", action="store_true", help="do not ask for confirmation")
    test = actions.add_parser("test", help="test whether the platform accepts the bot")
    test.add_argument("--json", action="store_true", help="print JSON")
    for action in (add, remove, test):
        action.add_argument("channel", choices=["telegram"], metavar="telegram")
        action.add_argument(
            "--name", metavar="NAME", type=_account, help="name of an additional bot"
        )


def run(args: argparse.Namespace) -> int:
    if args.action == "list":
        return _list(args)
    if args.action == "test":
        return _test(args)
    if args.action == "remove":
        return _remove(args)
    return add(args)


def add(args: argparse.Namespace) -> int:
    """Connect a bot: its token, who owns it, what to do next. Raises `KoreError`."""
    from gateway.cli.onboarding.dialogue import Back, Dialogue, Skip

    talk = Dialogue()
    try:
        token, is_new = _token(args, talk)
    except (Back, Skip):
        talk.say(t("Skipped; no bot was connected."))
        return 0
    if is_new:
        _write(args, token)
        if token.bot is not None:
            talk.say(t("@{name} is connected.", name=token.bot.username))
    if token.bot is None:
        talk.say(t("The token is saved but not verified: Telegram could not be reached."))
        talk.say(
            t("When the network is back, run `kore channel add telegram` to become its owner.")
        )
        return 0
    return _introduce(args, token, token.bot, talk)


def _token(args: argparse.Namespace, talk: "Dialogue") -> "tuple[Token, bool]":
    """The bot's token, and whether it has to be written down."""
    from gateway.cli.onboarding.dialogue import is_interactive
    from gateway.cli.onboarding.telegram import ask_token, check, exported_variable, from_variable

    settings = settings_of(args)
    base_url, current = (
        TELEGRAM.section_of(settings).base_url,
        _configured_token(settings, args.name),
    )
    if args.token_env:
        return from_variable(args.token_env, os.environ, base_url), True
    if is_interactive():
        question = t("A bot is already connected. Replace it?")
        if current and not talk.confirm(question, default=False):
            return check(current, base_url), False
        return ask_token(talk, os.environ, base_url), True
    if line := "" if sys.stdin.isatty() else sys.stdin.readline().strip():
        return check(line, base_url), True
    if current:
        return check(current, base_url), False
    variable = exported_variable(os.environ)
    if variable is None:
        raise ConfigError(
            t("kore channel add asks for the bot's token and needs a terminal"),
            hint=t("pass it on stdin, or name its variable: --token-env TELEGRAM_BOT_TOKEN"),
        )
    return check(os.environ[variable].strip(), base_url, variable), True


def _configured_token(settings: "Settings", name: str | None) -> str:
    """The token that is configured for this bot; '' without one."""
    telegram = TELEGRAM.section_of(settings)
    if name is None:
        return telegram.token.get_secret_value() if telegram.enabled else ""
    tokens = (one.token for one in telegram.accounts if one.name == name)
    return next((token.get_secret_value() for token in tokens), "")


def _write(args: argparse.Namespace, token: "Token") -> None:
    from gateway.cli.onboarding.telegram import addition

    home = data_dir_of(args)
    path = config_path(args, home)
    home.ensure()
    change = addition(token, args.name, settings_of(args), read_object(path) or {})
    _apply(change, path, home)


def _apply(change: "BotChange", path: Path, home: "DataDir") -> None:
    """The secret first: a reference that leads nowhere would stop the gateway."""
    from gateway.config.editing import change_config, change_secrets

    new = {name: value for name, value in change.secrets.items() if value is not None}
    change_secrets(home.secrets, new)
    change_config(path, change.config)
    change_secrets(home.secrets, {name: None for name in change.secrets if name not in new})


def _introduce(
    args: argparse.Namespace, token: "Token", bot: "BotIdentity", talk: "Dialogue"
) -> int:
    """Who owns it, and what to do next."""
    from gateway.cli.onboarding.owner import BotAccount, invitation, show_link

    home = data_dir_of(args)
    # Whatever else uses the port: this is no gateway that anybody has to find.
    settings = settings_of(args, {"http.port": 0})
    candidate = BotAccount(bot, args.name or token.account)
    if args.no_wait:
        link = asyncio.run(invitation(settings, home, candidate))
        if link:
            show_link(link, talk.say)
    else:
        talk.say(_wait_for_owner(args, settings, home, candidate, talk))
    states = asyncio.run(_states(home))
    if states is not None:
        is_connected = candidate.address in states
        talk.say(
            t("The running gateway uses it now.")
            if is_connected
            else t("Next: restart the running gateway; it does not know this bot yet.")
        )
        return 0
    talk.say(t("Next: start `kore gateway`; `kore service install` keeps it running."))
    return 0


def _wait_for_owner(
    args: argparse.Namespace,
    settings: "Settings",
    home: "DataDir",
    candidate: "BotAccount",
    talk: "Dialogue",
) -> str:
    from gateway.cli.onboarding.owner import await_owner
    from gateway.runtime.log_setup import open_logs

    redactor = args.crash.redactor
    open_logs(settings, redactor, terminal=False, default_file=home.logs / "kore.log")
    try:
        return asyncio.run(await_owner(settings, home, candidate, talk.say))
    except KeyboardInterrupt:
        talk.say()
        return t(
            "It has no owner yet. The link is still valid: start `kore gateway`, then open it."
        )


def may_serve(args: argparse.Namespace) -> bool:
    """Whether a bot waits for a gateway that is not there."""
    return bool(_bots(settings_of(args))) and asyncio.run(_states(data_dir_of(args))) is None


def serve(args: argparse.Namespace) -> int:
    """Run the gateway here."""
    from gateway.cli.verbs import gateway

    args.quiet = args.full_access = args.standby = False
    args.workers = None
    return gateway.run(args)


def _list(args: argparse.Namespace) -> int:
    settings, home = settings_of(args), data_dir_of(args)
    states = asyncio.run(_states(home))
    rows = []
    for name, token in _bots(settings):
        account = name or (token.partition(":")[0] or "bot")
        state = states.get(f"telegram:{account}") if states is not None else None
        now, trouble = (state["state"], state["last_error"]) if state else ("not running", None)
        rows.append({"channel": "telegram", "account": account, "state": now, "trouble": trouble})
    if args.json:
        print_json(rows)
    elif rows:
        cells = [
            [str(fact or "") for fact in {**row, "state": t(str(row["state"]))}.values()]
            for row in rows
        ]
        print_table(tuple(rows[0]), cells)
    else:
        print(t("No channel is connected. To connect one: `kore channel add telegram`"))
    return 0


def _bots(settings: "Settings") -> list[tuple[str | None, str]]:
    telegram = TELEGRAM.section_of(settings)
    if not telegram.enabled:
        return []
    first = (None, telegram.token.get_secret_value())
    return [first, *((one.name, one.token.get_secret_value()) for one in telegram.accounts)]


async def _states(home: "DataDir") -> Mapping[str, Any] | None:
    """How the channels of the running Kore are; None when none runs."""
    from gateway.control.client import ControlClient

    client = await ControlClient.connect(home.socket)
    return None if client is None else (await client.status())["channels"]


def _test(args: argparse.Namespace) -> int:
    from gateway.cli.onboarding.telegram import check

    settings = settings_of(args)
    bot = check(_require_token(settings, args.name), TELEGRAM.section_of(settings).base_url).bot
    assert bot is not None, "check asks Telegram"
    facts = {"ok": True, "id": bot.id, "username": bot.username, "name": bot.name, "link": bot.link}
    if args.json:
        print_json(facts)
    else:
        print(t("@{name} answers: {link}", name=bot.username, link=bot.link))
    return 0


def _require_token(settings: "Settings", name: str | None) -> str:
    token = _configured_token(settings, name)
    if not token:
        raise KoreError(
            t("this bot is not connected"), hint=t("`kore channel list` shows the connected bots")
        )
    return token


def _remove(args: argparse.Namespace) -> int:
    from gateway.cli.onboarding.dialogue import Dialogue, is_interactive
    from gateway.cli.onboarding.telegram import OWN_VARIABLE, removal

    home, settings = data_dir_of(args), settings_of(args)
    _require_token(settings, args.name)
    path = config_path(args, home)
    if not args.yes:
        if not is_interactive():
            raise ConfigError(
                t("kore channel remove asks for confirmation and needs a terminal"), hint="--yes"
            )
        if not Dialogue().confirm(t("Disconnect the bot and forget its token?"), default=False):
            return 0
    _apply(removal(args.name, read_object(path) or {}), path, home)
    print(t("Disconnected. A running gateway keeps using it until it is restarted."))
    if os.environ.get(OWN_VARIABLE) and args.name is None:
        print(t("{name} is still exported: unset it too.", name=OWN_VARIABLE))
    return 0


def _account(text: str) -> str:
    if not re.fullmatch(r"[a-z][a-z0-9_]{0,30}", text):
        raise argparse.ArgumentTypeError(
            t("found {text!r}, expected a name such as work", text=text)
        )
    return text
