"""Conversion of the settings' models for `agent.providers.registry`."""

from collections.abc import Mapping, Sequence

from agent.i18n import t
from agent.providers import local_discovery
from agent.providers.registry import ModelConfig, default_model, resolve_model
from gateway.config.origin import Loc, dotted
from gateway.config.python_plugins import register_providers
from gateway.config.schema import Settings
from gateway.config.sections import ModelEntry


def model_list(settings: Settings) -> tuple[ModelConfig, ...]:
    """Return every entry of model_list, including those without a key.

    An unresolved reference remains `${NAME}`; resolving that entry raises an error. Registers the
    providers of packages. Raises `ConfigError`.
    """
    register_providers(settings)
    return tuple(_config(settings, n, entry) for n, entry in enumerate(settings.model_list))


def chosen_model(settings: Settings, environ: Mapping[str, str], local: Sequence[str] = ()) -> str:
    """Return `agent.model`, else the model of the profile "default", else one from `environ`.

    Without any, the first of the `local` models is chosen. Each name may be a name in model_list,
    and "default" may be one too.
    """
    names = {entry.model_name for entry in settings.model_list}
    name = settings.agent.model
    if name not in names:
        name = profile_models(settings).get(name, name)
    if name != "default" or name in names:
        return name
    return default_model(environ, local)


async def local_models(
    settings: Settings, usual: tuple[tuple[str, int], ...] = local_discovery.USUAL
) -> list[str]:
    """Return the models of servers on this machine, unless the settings forbid to look for them."""
    if not settings.agent.find_local_models:
        return []
    return await local_discovery.local_models(usual)


def profile_models(settings: Settings) -> dict[str, str]:
    """Return the model's name of each profile."""
    profiles = settings.profiles
    return {
        "default": profiles.default,
        "task": profiles.task,
        "reasoning": profiles.reasoning,
        "quick": profiles.quick,
    }


def fallbacks(settings: Settings) -> tuple[str, ...]:
    """Return the fallback models, in this order."""
    names = settings.agent.fallback
    return (names,) if isinstance(names, str) else tuple(names or ())


def check_models(settings: Settings, environ: Mapping[str, str]) -> None:
    """Raise `ConfigError` if the chosen model or one of its fallbacks is unusable."""
    for name in (chosen_model(settings, environ), *fallbacks(settings)):
        resolve_model(name, model_list(settings), environ)


def _config(settings: Settings, n: int, entry: ModelEntry) -> ModelConfig:
    unset = {
        variable.loc[2]: f"${{{variable.name}}}"
        for variable in settings.missing
        if variable.loc[:2] == ("model_list", n)
    }
    key = entry.api_key.get_secret_value() if entry.api_key else None
    keys = tuple(api_key.get_secret_value() for api_key in entry.api_keys)
    return ModelConfig(
        name=entry.model_name,
        model=entry.model,
        api_base=unset.get("api_base", entry.api_base),
        api_key=unset.get("api_key", key) or None,
        transport=entry.transport,
        context_tokens=entry.context_tokens,
        temperature=entry.temperature,
        max_tokens=entry.max_tokens,
        price_input_usd=entry.price_input_usd,
        price_output_usd=entry.price_output_usd,
        price_cached_usd=entry.price_cached_usd,
        tools=entry.tools,
        api=entry.api,
        images=entry.images,
        reasoning=entry.reasoning,
        headers={name: value.get_secret_value() for name, value in entry.headers.items()},
        api_keys=keys,
        key_sources=_sources(settings, n, entry),
        timeout_s=entry.timeout_s,
        proxy=unset.get("proxy", entry.proxy),
    )


def _sources(settings: Settings, n: int, entry: ModelEntry) -> tuple[str, ...]:
    """Return the origin of each key of an entry, in words."""
    if not entry.api_key and not entry.api_keys:
        return ()
    names: list[Loc] = [("api_keys", k) for k in range(len(entry.api_keys))] or [("api_key",)]
    file = settings.places.get(("model_list",), "model_list")
    sources = []
    for name in names:
        loc: Loc = ("model_list", n, *name)
        own = t("{key} in {place}", key=dotted(loc), place=file)
        sources.append(settings.places.get(loc, own))
    return tuple(sources)
