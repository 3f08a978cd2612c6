"""Values that loaded settings declare as secrets."""

from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import BaseModel, SecretStr

from agent.providers.vendors import VENDORS
from agent.security.secret_values import secrets_in_addresses, secrets_in_map
from gateway.config.python_plugins import package_sections
from gateway.config.schema import Settings
from gateway.config.secret_keys import secrets_of
from gateway.config.sections import McpServer


def declared_secrets_of(settings: Settings, environ: Mapping[str, str]) -> set[str]:
    """Return every secret of the settings, secrets.json and known variables, including ordinary
    words.

    For a channel's secrets, their parts are included.
    """
    variables = [name for vendor in VENDORS.values() for name in vendor.key_variables]
    if settings.store.encryption_key_env:
        variables.append(settings.store.encryption_key_env)
    if settings.store.files:
        variables += ["AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"]
    values = {*_walk(settings), *settings.hidden, *(environ.get(name, "") for name in variables)}
    packages = package_sections(settings)
    for section in (*settings.channels.values(), *packages.values()):
        values.update(section.secret_parts())
    values.update(_walk(packages))
    for text in tuple(values):
        values.update(secrets_in_addresses(text))
    return set(filter(None, values))


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
            # Most environment variables and headers are not secret.
            texts = {k: v.get_secret_value() for k, v in value.items() if isinstance(v, SecretStr)}
            yield from secrets_in_map(texts)
            for inner in value.values():
                if not isinstance(inner, SecretStr):
                    yield from _walk(inner)
        case tuple() | list():
            for inner in value:
                yield from _walk(inner)
        case str():
            yield from secrets_in_addresses(value)
