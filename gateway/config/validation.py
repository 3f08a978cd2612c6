"""Names that must lead somewhere: models by name, keys and tokens that are in use."""

import re
from collections.abc import Mapping

from agent.errors import ConfigError
from agent.i18n import t
from gateway.config.model_entries import fallbacks
from gateway.config.origin import Key, Value, printable
from gateway.config.schema import Settings
from gateway.config.sections import TelegramSection

OFFICIAL = "https://api.telegram.org"


def check_references(settings: Settings, values: Mapping[Key, Value]) -> list[str]:
    """Complaints about models that no entry has, and entries that share a name."""
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
    references: list[tuple[Key, str]] = [(("agent", "model"), settings.agent.model)]
    references += [(("agent", "fallback"), model) for model in fallbacks(settings)]
    references += [(("profiles", name), model) for name, model in settings.profiles]
    references += [
        (("telegram", "chats"), place.model)
        for place in settings.telegram.chats.values()
        if place.model and place.model not in dict(settings.profiles)
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
    """Raises `ConfigError` when the model or its fallback refers to a variable that is not set."""
    used = {settings.agent.model, *fallbacks(settings)}
    used |= {model for name, model in settings.profiles if name in used}
    for lack in settings.missing:
        if lack.loc[0] != "model_list" or not isinstance(lack.loc[1], int):
            continue
        if settings.model_list[lack.loc[1]].model_name in used:
            raise ConfigError(str(lack))


def require_telegram(settings: Settings) -> None:
    """Raises `ConfigError` when Telegram is enabled and its token is not there."""
    if not settings.telegram.enabled:
        return
    for lack in settings.missing:
        if lack.loc[0] == "telegram":
            raise ConfigError(str(lack))
    if not settings.telegram.token.get_secret_value():
        raise ConfigError(
            t("telegram.token is required when telegram.enabled is true"),
            hint=t("run `kore channel add telegram` or set KORE_TELEGRAM_TOKEN"),
        )
    if settings.telegram.mode == "webhook":
        _require_webhook(settings.telegram)


def _require_webhook(telegram: TelegramSection) -> None:
    url, secret = telegram.webhook_url, telegram.webhook_secret
    if url is None:
        raise ConfigError(
            t(
                'telegram.webhook_url is required when telegram.mode is "webhook": the '
                "URL at which Telegram reaches this Kore"
            ),
            hint=t('such as "https://kore.example.org", with a proxy that forwards to http.port'),
        )
    if not url.startswith("https://") and telegram.base_url == OFFICIAL:
        raise ConfigError(t("telegram.webhook_url: found http://, but Telegram requires https://"))
    # What setWebhook takes: https://core.telegram.org/bots/api#setwebhook
    if secret and not re.fullmatch(r"[A-Za-z0-9_-]{1,256}", secret.get_secret_value()):
        raise ConfigError(
            t("telegram.webhook_secret: expected 1 to 256 of the characters A-Z a-z 0-9 _ -")
        )
