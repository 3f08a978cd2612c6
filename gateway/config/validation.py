"""Validation of references: models by name, keys and tokens in use."""

import re
from collections.abc import Iterator, Mapping

from agent.errors import ConfigError
from agent.i18n import t
from gateway.config.model_entries import fallbacks
from gateway.config.origin import Key, Value, printable
from gateway.config.schema import Settings
from gateway.config.value_types import audience_forms
from gateway.core.messages import CONSOLE


def check_references(settings: Settings, values: Mapping[Key, Value]) -> list[str]:
    """Return complaints about model names without an entry, and entries that share a name."""
    complaints: list[str] = []
    names = [entry.model_name for entry in settings.model_list]
    for n, name in enumerate(names):
        if name in names[:n]:
            place = values[("model_list",)].place
            complaints.append(
                t(
                    '{where}: duplicate "{name}"',
                    where=f"{place}: model_list[{n}].model_name",
                    name=printable(name),
                )
            )
    for n, entry in enumerate(settings.model_list):
        if entry.api_key and entry.api_keys:
            place = values[("model_list",)].place
            complaints.append(
                t(
                    "{where}: cannot be combined with api_key; keep one of them",
                    where=f"{place}: model_list[{n}].api_keys",
                )
            )
    complaints += _unknown_channels(settings, values)
    references: list[tuple[Key, str]] = [(("agent", "model"), settings.agent.model)]
    references += [(("agent", "fallback"), model) for model in fallbacks(settings)]
    references += [(("profiles", name), model) for name, model in settings.profiles]
    references += [
        ((name, "chats"), chat.model)
        for name, section in settings.channels.items()
        for chat in section.chats.values()
        if chat.model and chat.model not in dict(settings.profiles)
    ]
    for key, model in references:
        if model == "default" or "/" in model or model in names:
            continue
        if key[0] == "agent" and model in dict(settings.profiles):
            continue
        place = values[key].place
        from difflib import get_close_matches

        close = get_close_matches(model, names, n=1)
        guess = t('; did you mean "{close}"?', close=printable(close[0])) if close else ""
        complaints.append(
            t(
                '{where}: found "{model}", expected a model_name of model_list or '
                "vendor/model{guess}",
                where=f"{place}: {key[0]}.{key[1]}",
                model=printable(model),
                guess=guess,
            )
        )
    return complaints


def require_model(settings: Settings) -> None:
    """Raise `ConfigError` if the model or its fallback refers to a variable that is not set."""
    used = {settings.agent.model, *fallbacks(settings)}
    used |= {model for name, model in settings.profiles if name in used}
    for variable in settings.missing:
        if variable.loc[0] != "model_list" or not isinstance(variable.loc[1], int):
            continue
        if settings.model_list[variable.loc[1]].model_name in used:
            raise ConfigError(str(variable))


def _unknown_channels(settings: Settings, values: Mapping[Key, Value]) -> Iterator[str]:
    """Yield complaints about modes and roles for channels that do not exist, and about ids that a
    channel does not have."""
    packages = settings.python_plugins
    channels = (*settings.channels, *packages)
    for channel in settings.security.modes:
        if channel not in (CONSOLE, *channels):
            yield t(
                "{where}: expected one of {known}",
                where=f"{values['security', 'modes'].place}: security.modes.{printable(channel)}",
                known=", ".join((CONSOLE, *channels)),
            )
    for audience in settings.access.roles:
        channel, _, rest = audience.partition(":")
        section = settings.channels.get(channel)
        if section is None and channel in packages:
            continue
        if section is None or not re.fullmatch(
            f"|{section.person_id}|chat:{section.chat_id}", rest
        ):
            place = values["access", "roles"].place
            yield t(
                "{where}: expected a key like {expected}",
                where=f"{place}: access.roles.{printable(audience)}",
                expected=audience_forms(),
            )
