"""Secrets of the configuration, for the `Redactor` of the process."""

from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import BaseModel, SecretStr

from agent.providers.vendors import VENDORS
from agent.security.redaction import Redactor
from agent.security.secret_values import (
    is_secret_value,
    names_secret,
    secrets_in_addresses,
    secrets_in_map,
)
from gateway.config import Settings
from gateway.config.python_plugins import PACKAGES, package_sections
from gateway.config.secret_keys import masked, secrets_of
from gateway.config.sections import McpServer


def redactor_of(settings: Settings, environ: Mapping[str, str]) -> Redactor:
    """Return the redactor of this process.

    It knows the secrets of the settings, secrets.json, and keys in the environment.
    """
    return Redactor(secret_values(settings, environ))


def secret_values(settings: Settings, environ: Mapping[str, str]) -> frozenset[str]:
    """Return every known secret; of a channel's secrets also their parts."""
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
    return frozenset(filter(is_secret_value, values))


def unredacted_settings(value: Any, path: str = "") -> Iterator[str]:
    """Yield names of secret settings whose value is a word.

    Such values are not redacted, because too many texts contain them.
    """
    match value:
        case SecretStr():
            if value and not is_secret_value(value.get_secret_value()):
                yield path
        case BaseModel():
            for name, inner in value:
                yield from unredacted_settings(inner, f"{path}.{name}".lstrip("."))
        case dict():
            for name, inner in value.items():
                if not isinstance(inner, SecretStr) or names_secret(name):
                    yield from unredacted_settings(inner, f"{path}.{name}")
        case tuple() | list():
            for number, inner in enumerate(value):
                yield from unredacted_settings(inner, f"{path}.{number}")
        case str():
            if not all(map(is_secret_value, secrets_in_addresses(value))):
                yield path


def describe(settings: Settings) -> dict[str, Any]:
    """Return the settings as JSON values, with secrets as stars."""
    values = settings.model_dump(mode="json")
    for name, section in package_sections(settings).items():
        values[PACKAGES][name] = section.model_dump(mode="json")
    described: dict[str, Any] = masked(values)
    return described


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
            # Environment variables and headers are mostly not secret.
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
