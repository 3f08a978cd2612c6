"""Validation of references, and error messages: one line each, without secrets."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from agent.errors import ConfigError
from agent.i18n import mark_for_translation, t
from agent.security.secret_values import is_secret_value
from agent.text.similar_names import similar_names
from gateway.config.channel_section import ChannelSection
from gateway.config.declared_secrets import declared_secrets_of
from gateway.config.json_files.document import kind_of
from gateway.config.key_catalog import section_at
from gateway.config.model_entries import fallbacks
from gateway.config.origin import Key, Loc, MissingVariable, Value, dotted, printable
from gateway.config.python_plugins import (
    PACKAGES,
    channel_options,
    package_channels,
    package_sections,
)
from gateway.config.references import References
from gateway.config.schema import Settings
from gateway.config.value_types import audience_forms
from gateway.core.messages import CONSOLE

_SECRET = re.compile(r"token|secret|key|password|env|headers", re.IGNORECASE)
# A short plain word or number, which may be quoted because it cannot be a vendor's key.
_QUOTABLE = re.compile(r"[A-Za-z-]{1,12}|[-+.0-9]{1,6}")
_EXPECTED = {
    "string_type": mark_for_translation("a string"),
    "int_type": mark_for_translation("a whole number"),
    "int_from_float": mark_for_translation("a whole number"),
    "float_type": mark_for_translation("a number"),
    "finite_number": mark_for_translation("a finite number"),
    "bool_type": mark_for_translation("true or false"),
    "tuple_type": mark_for_translation("a list"),
    "dict_type": mark_for_translation("an object"),
    "model_type": mark_for_translation("an object"),
    "model_attributes_type": mark_for_translation("an object"),
    "path_type": mark_for_translation("a path"),
    "string_too_short": mark_for_translation("a non-empty string"),
}
_LIMITS = {
    "ge": mark_for_translation("at least {n}"),
    "gt": mark_for_translation("more than {n}"),
    "le": mark_for_translation("at most {n}"),
}


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
    sections: dict[Key, ChannelSection] = {
        **{(name,): section for name, section in settings.channels.items()},
        **{(PACKAGES, name): section for name, section in package_sections(settings).items()},
    }
    references += [
        ((*key, "chats"), chat.model)
        for key, section in sections.items()
        for chat in section.chats.values()
        if chat.model and chat.model not in dict(settings.profiles)
    ]
    for key, model in references:
        if model == "default" or "/" in model or model in names:
            continue
        if key[0] == "agent" and model in dict(settings.profiles):
            continue
        place = (values.get(key) or values[key[:1]]).place
        close = similar_names(model, names)
        guess = t('; did you mean "{close}"?', close=printable(close[0])) if close else ""
        complaints.append(
            t(
                '{where}: found "{model}", expected a model_name of model_list or '
                "vendor/model{guess}",
                where=f"{place}: {'.'.join(key)}",
                model=printable(model),
                guess=guess,
            )
        )
    return complaints


def check_command_variables(
    settings: Settings, values: Mapping[Key, Value], references: References
) -> list[str]:
    """Return complaints about variables of commands that contain a secret.

    References to secrets are rejected. In literal text, secrets that are words do not count,
    because a word need not be a copy.
    """
    variables = settings.security.exec_env
    if not variables:
        return []
    key = ("security", "exec_env")
    secrets = declared_secrets_of(settings, references.environ)
    random_secrets = list(filter(is_secret_value, secrets))
    return [
        t(
            "{where}: holds a secret, which commands of the model could read",
            where=f"{values[key].place}: {dotted((*key, name))}",
        )
        for name, text in variables.items()
        if not secrets.isdisjoint(references.filled.get((*key, name), ()))
        or any(secret in text for secret in random_secrets)
    ]


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
    """Yield complaints about modes and roles for unknown channels, and about ids that are invalid
    for a channel.
    """
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


def explain_errors(
    error: ValidationError,
    values: Mapping[Key, Value],
    missing: Sequence[MissingVariable],
    above: Loc = (),
) -> list[str]:
    """Return one line for each validation error; `above` is the path of the validated object."""
    return [
        _sentence({**details, "loc": (*above, *details["loc"])}, values, missing)
        for details in error.errors(include_url=False)
    ]


def check_packages(
    settings: Settings, values: Mapping[Key, Value], missing: Sequence[MissingVariable]
) -> list[str]:
    """Return one line for each error in the settings of enabled channels of packages."""
    errors: list[str] = []
    for name, section in package_channels(settings).items():
        try:
            section.model_validate(channel_options(settings.python_plugins[name]))
        except ValidationError as exc:
            errors += explain_errors(exc, values, missing, above=(PACKAGES, name))
    return errors


def quote(value: Any, loc: Loc, *, quotable: bool) -> str:
    """Return a value for an error: its kind, and its text only if it cannot be a secret."""
    secret = any(isinstance(part, str) and _SECRET.search(part) for part in loc)
    if not quotable or (secret and loc[-1] != "encryption_key_env"):
        return t("a number") if isinstance(value, int | float) else kind_of(value)
    if isinstance(value, str) and _QUOTABLE.fullmatch(value):
        return f'"{value}"'
    if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 10**7:
        return f"{value:g}" if isinstance(value, float) else str(value)
    return kind_of(value)


def _sentence(
    details: ErrorDetails, values: Mapping[Key, Value], missing: Sequence[MissingVariable]
) -> str:
    loc = details["loc"]
    if loc[-1] == "[key]":
        loc = loc[:-1]
    for variable in missing:
        if variable.loc == loc[: len(variable.loc)]:
            return str(variable)
    source = values.get(tuple(map(str, loc[:2]))) or values.get((str(loc[0]),))
    place = source.place if source else "default"
    if details["type"] == "missing":
        where = dotted(loc[:-1])
        return t(
            '{place}: {where}: the key "{key}" is missing', place=place, where=where, key=loc[-1]
        )
    where, expected = f"{place}: {dotted(loc)}", _describe_expected(details)
    if details["type"] == "extra_forbidden":
        return t("{where}: unknown key{guess}", where=where, guess=_guess(loc))
    if details["loc"] != loc:
        return t("{where}: expected a key like {expected}", where=where, expected=expected)
    quoted = quote(details["input"], loc, quotable=source is None or source.quotable)
    return t(
        "{where}: found {found}, expected {expected}", where=where, found=quoted, expected=expected
    )


def _describe_expected(details: ErrorDetails) -> str:
    kind, limits = details["type"], details.get("ctx", {})
    if kind == "value_error":
        return str(limits["error"])
    if kind == "literal_error":
        return _translate_or(str(limits["expected"]).replace("'", '"'))
    for name, template in _LIMITS.items():
        if name in limits:
            limit = limits[name]
            return t(template, n=f"{limit:g}" if isinstance(limit, float) else limit)
    if kind in _EXPECTED:
        return t(_EXPECTED[kind])
    return printable(details["msg"].removeprefix("Input should be ").lower(), 100)


def _translate_or(listed: str) -> str:
    """Translate the validator's English `"a", "b" or "c"`."""
    first, separator, last = listed.rpartition(" or ")
    return t("{first} or {last}", first=first, last=last) if separator else listed


def _guess(loc: Loc) -> str:
    inner = section_at([str(part) for part in loc[:-1]])
    names = list(inner.model_fields) if inner else []
    close = similar_names(printable(str(loc[-1])).lower(), names)
    if close:
        return t('; did you mean "{close}"?', close=close[0])
    return t("; expected one of {known}", known=", ".join(names)) if names else ""
