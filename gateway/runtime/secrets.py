"""Secrets of the configuration, for the `Redactor` of the process."""

from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import BaseModel, SecretStr

from agent.security.redaction import Redactor
from agent.security.secret_values import is_secret_value, names_secret, secrets_in_addresses
from gateway.config import Settings
from gateway.config.declared_secrets import declared_secrets_of
from gateway.config.python_plugins import PACKAGES, package_sections
from gateway.config.secret_keys import masked


def redactor_of(settings: Settings, environ: Mapping[str, str]) -> Redactor:
    """Return the redactor of this process.

    It knows the secrets of the settings, secrets.json, and keys in the environment.
    """
    return Redactor(secret_values(settings, environ))


def secret_values(settings: Settings, environ: Mapping[str, str]) -> frozenset[str]:
    """Return every known secret, including the parts of channels' secrets."""
    return frozenset(filter(is_secret_value, declared_secrets_of(settings, environ)))


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
