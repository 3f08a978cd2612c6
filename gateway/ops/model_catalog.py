"""Catalog of usable models, with their known properties; sends no requests."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

from agent.errors import ConfigError
from agent.providers.pricing import tariff_of
from agent.providers.registry import ModelConfig, resolve_model
from agent.providers.vendors import VENDORS
from agent.records import frozen
from gateway.config import Settings
from gateway.config.model_entries import chosen_model, fallbacks, model_list, profile_models

Source = Literal["configured", "environment", "local", "named"]


@frozen
class ModelListing:
    """A model under the name that people use. Prices are in dollars per million tokens.

    `marks` are its uses: default, a profile's name, "fallback 1". `problem` is the reason why it is
    unusable.
    """

    name: str
    model: str
    source: Source
    marks: tuple[str, ...]
    keys: int
    context_tokens: int | None
    price_input_usd: float | None
    price_output_usd: float | None
    problem: str | None = None
    images: bool | None = None
    reasoning: bool | None = None


def offers(
    settings: Settings, environ: Mapping[str, str], local: Sequence[str] = ()
) -> list[ModelListing]:
    """Return the available models.

    These are configured models, models of vendors with a key in `environ`, and `local` models.
    """
    configured = model_list(settings)
    uses = used_for(settings, environ, local)
    names: dict[str, Source] = {config.name: "configured" for config in configured}
    for name in uses:
        names.setdefault(name, "named")
    for vendor in VENDORS.values():
        if vendor.default_model and any(environ.get(variable) for variable in vendor.key_variables):
            names.setdefault(f"{vendor.name}/{vendor.default_model}", "environment")
    for name in local:
        names.setdefault(name, "local")
    return [
        _offer(name, source, uses.get(name, ()), configured, environ)
        for name, source in names.items()
    ]


def used_for(
    settings: Settings, environ: Mapping[str, str], local: Sequence[str] = ()
) -> dict[str, tuple[str, ...]]:
    """Return the names of the models in use, with their marks."""
    uses: dict[str, tuple[str, ...]] = {}
    for name, mark in _uses(settings, environ, local):
        uses[name] = (*uses.get(name, ()), mark)
    return uses


def _uses(
    settings: Settings, environ: Mapping[str, str], local: Sequence[str]
) -> Iterator[tuple[str, str]]:
    yield chosen_model(settings, environ, local), "default"
    for profile, model_name in profile_models(settings).items():
        if profile != "default" and model_name != "default":
            yield model_name, profile
    for n, name in enumerate(fallbacks(settings), 1):
        yield name, f"fallback {n}"


def _offer(
    name: str,
    source: Source,
    marks: tuple[str, ...],
    configured: Sequence[ModelConfig],
    environ: Mapping[str, str],
) -> ModelListing:
    problem = None
    config = next((entry for entry in configured if entry.name == name), ModelConfig(name, name))
    try:
        config = resolve_model(name, configured, environ)
    except ConfigError as exc:
        problem = str(exc)
    price = tariff_of(config).price
    return ModelListing(
        name,
        config.model,
        source,
        marks,
        len(config.api_keys),
        config.context_tokens,
        price.input / 1_000_000 if price else None,
        price.output / 1_000_000 if price else None,
        problem,
        config.images,
        config.reasoning,
    )
