"""Which texts are secret in this process: what the one `Redactor` of every outlet looks for."""

import re
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import unquote

from pydantic import BaseModel, SecretStr

from agent.providers.vendors import PLACEHOLDERS, VENDORS
from agent.security.redaction import Redactor
from gateway.config import Settings
from gateway.config.secret_keys import secrets_of
from gateway.config.sections import McpServer

# What stands before the host of an address, wherever in a text that is.
_LOGIN = re.compile(r"://([^/?#\s]*)@")


def redactor_of(settings: Settings, environ: Mapping[str, str]) -> Redactor:
    """For this process: the settings' secrets, secrets.json, and keys in the environment."""
    return Redactor(secret_values(settings, environ))


def secret_values(settings: Settings, environ: Mapping[str, str]) -> frozenset[str]:
    """Every secret that is known here; of a bot's token also the part behind the number."""
    variables = [name for vendor in VENDORS.values() for name in vendor.key_variables]
    if settings.store.encryption_key_env:
        variables.append(settings.store.encryption_key_env)
    if settings.store.files:
        variables += ["AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"]
    values = {*_walk(settings), *settings.hidden, *(environ.get(name, "") for name in variables)}
    bots = (settings.telegram.token, *(bot.token for bot in settings.telegram.accounts))
    values |= {token.get_secret_value().partition(":")[2] for token in bots}
    return frozenset(text for text in values if text and text.lower() not in PLACEHOLDERS)


def describe(settings: Settings) -> dict[str, Any]:
    """The settings as JSON values, with secrets as stars."""
    from gateway.config.secret_keys import masked

    values: dict[str, Any] = masked(settings.model_dump(mode="json"))
    return values


def _walk(value: Any) -> Iterator[str]:
    match value:
        case SecretStr():
            yield value.get_secret_value()
        case BaseModel():
            if isinstance(value, McpServer):
                yield from secrets_of(value.args)
            for _, inner in value:
                yield from _walk(inner)
        case dict():
            for inner in value.values():
                yield from _walk(inner)
        case tuple() | list():
            for inner in value:
                yield from _walk(inner)
        case str():
            for name, _, password in (one.partition(":") for one in _LOGIN.findall(value)):
                yield password or name
                yield unquote(password or name)
