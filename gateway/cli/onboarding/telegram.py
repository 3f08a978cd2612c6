"""A bot's token: where it comes from, whether Telegram knows it, and where it is kept."""

import asyncio
import re
from collections.abc import Mapping
from typing import Any

from agent.errors import ConfigError, KoreError
from agent.i18n import t
from agent.records import frozen
from gateway.channels.telegram.spec import SPEC as TELEGRAM
from gateway.cli.onboarding.dialogue import Dialogue
from gateway.config import Settings
from gateway.config.origin import Key
from gateway.ops.credential_checks import BotIdentity, ServiceUnreachable, check_bot_token

# Kore's own name for it makes config.json's unnecessary; the other one is what people export.
OWN_VARIABLE = "KORE_TELEGRAM_TOKEN"
VARIABLE = "TELEGRAM_BOT_TOKEN"
# core.telegram.org/bots/features#botfather shows one; the second half has had 35 letters for years.
_TOKEN = re.compile(r"[0-9]{5,20}:[A-Za-z0-9_-]{10,}")
_TRIES = 5


@frozen
class Token:
    """`variable` is the exported one that holds it; None when it was typed. `bot` is None as
    long as Telegram could not be asked."""

    text: str
    bot: BotIdentity | None
    variable: str | None = None

    @property
    def account(self) -> str:
        """What the bot is called in routes when it has no name of its own."""
        return self.text.partition(":")[0]


def looks_like_token(text: str) -> bool:
    """Whether this looks like a token at all."""
    return _TOKEN.fullmatch(text) is not None


def exported_variable(environ: Mapping[str, str]) -> str | None:
    """The variable that holds a token here, if one does."""
    return next((name for name in (OWN_VARIABLE, VARIABLE) if environ.get(name)), None)


def check(text: str, base_url: str, variable: str | None = None) -> Token:
    """Ask Telegram whose token it is. Raises `KoreError` with the reason."""
    if not looks_like_token(text):
        raise KoreError(
            t("this is not a bot token; expected something like 123456789:AAF0…"),
            hint=t("copy the complete token from @BotFather"),
        )
    return Token(text, asyncio.run(check_bot_token(text, base_url)), variable)


def from_variable(name: str, environ: Mapping[str, str], base_url: str) -> Token:
    """The token in a named variable. Raises `KoreError`."""
    text = environ.get(name, "").strip()
    if not text:
        raise ConfigError(
            t("the environment variable {name} is not set", name=name),
            hint=t("export it, or omit --token-env to be asked"),
        )
    return check(text, base_url, name)


def ask_token(talk: Dialogue, environ: Mapping[str, str], base_url: str) -> Token:
    """Ask the person until Telegram knows the token; an exported one is offered first."""
    variable = exported_variable(environ)
    if variable and talk.confirm(t("Use the token in {name}?", name=variable)):
        token = _check_token(talk, environ[variable].strip(), base_url, variable)
        if token is not None:
            return token
    talk.say(t("Create a bot with @BotFather: https://t.me/BotFather"))
    talk.say(t("Send it /newbot, answer its two questions, and copy the token."))
    for _ in range(_TRIES):
        text = talk.secret(t("Token (hidden while you paste)"))
        token = _check_token(talk, text, base_url, None)
        if token is not None:
            return token
    raise KoreError(t("no token given; nothing was written"))


def _check_token(talk: Dialogue, text: str, base_url: str, variable: str | None) -> Token | None:
    """None when it is asked for again. Without a network it can be kept, and checked later."""
    while True:
        try:
            return check(text, base_url, variable)
        except ServiceUnreachable as exc:
            _complain(talk, exc)
            ways = [t("try again"), t("keep the token and verify it later"), t("another token")]
            match talk.choose(t("What now?"), ways, default=1):
                case 1:
                    return Token(text, None, variable)
                case 2:
                    return None
        except KoreError as exc:
            _complain(talk, exc)
            return None


def _complain(talk: Dialogue, exc: KoreError) -> None:
    talk.say(f"  {exc}" + (f"; {exc.hint}" if exc.hint else ""))


@frozen
class BotChange:
    """What has to be written: keys of config.json, and names of secrets.json."""

    config: Mapping[Key, Any]
    secrets: Mapping[str, str | None]


def addition(
    token: Token, name: str | None, settings: Settings, raw: Mapping[str, Any]
) -> BotChange:
    """What makes the bot one of Kore's; `raw` is the configuration file as it stands.

    Raises `ConfigError` for a further bot where there is no first one.
    """
    if name is None:
        variable = token.variable or _free(VARIABLE, token, settings)
        config: dict[Key, Any] = {("telegram", "enabled"): True}
        if variable != OWN_VARIABLE:
            config["telegram", "token"] = f"${{{variable}}}"
        return BotChange(config, _secrets_of(token, variable))
    telegram = TELEGRAM.section_of(settings)
    if not telegram.enabled or not telegram.token.get_secret_value():
        raise ConfigError(
            t("no bot is connected yet"), hint=t("connect the first one without --name")
        )
    variable = token.variable or _free(f"{VARIABLE}_{name.upper()}", token, settings)
    entry = {"name": name, "token": f"${{{variable}}}"}
    accounts = [one for one in _accounts(raw) if isinstance(one, dict) and one.get("name") != name]
    return BotChange({("telegram", "accounts"): [*accounts, entry]}, _secrets_of(token, variable))


def removal(name: str | None, raw: Mapping[str, Any]) -> BotChange:
    """What takes a bot out again; its token goes with it."""
    section = raw.get("telegram")
    section = section if isinstance(section, dict) else {}
    if name is None:
        config: dict[Key, Any] = {("telegram", "enabled"): False, ("telegram", "token"): ""}
        token = section.get("token")
    else:
        token = next((one.get("token") for one in _accounts(raw) if one.get("name") == name), None)
        remaining = [one for one in _accounts(raw) if one.get("name") != name]
        config = {("telegram", "accounts"): remaining}
    match = re.fullmatch(r"\$\{(\w+)\}", token) if isinstance(token, str) else None
    return BotChange(config, {match[1]: None} if match else {})


def _accounts(raw: Mapping[str, Any]) -> list[Any]:
    section = raw.get("telegram")
    accounts = section.get("accounts") if isinstance(section, dict) else None
    return accounts if isinstance(accounts, list) else []


def _secrets_of(token: Token, variable: str) -> dict[str, str | None]:
    return {} if token.variable else {variable: token.text}


def _free(name: str, token: Token, settings: Settings) -> str:
    """A name for secrets.json: an exported variable of the same name would win over it."""
    import os

    return f"{name}_{token.account}" if os.environ.get(name, token.text) != token.text else name
