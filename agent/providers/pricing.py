"""Model prices from the bundled table and the configuration."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from agent.providers.model_facts import listed_row
from agent.providers.registry import ModelConfig
from agent.providers.usage import Price, Tariff, pico


def tariff_of(config: ModelConfig) -> Tariff:
    """Return the prices of a model: as configured, else as listed.

    A model that is not listed needs both an input and an output price.
    """
    name = f"{config.vendor}/{config.model_id}"
    listed = listed_price(config.vendor, config.model_id)
    own = (config.price_input_usd, config.price_output_usd, config.price_cached_usd)
    if own == (None, None, None):
        return Tariff(name, listed)
    if own[:2] == (None, None) and listed and own[2] is not None:
        return Tariff(name, replace(listed, cached=pico(own[2])))
    list_prices = (listed.input, listed.output, listed.cached) if listed else (None, None, None)
    input_, output, cached = (
        list_price if own_price is None else pico(own_price)
        for own_price, list_price in zip(own, list_prices, strict=True)
    )
    if input_ is None or output is None:
        return Tariff(name)
    return Tariff(name, Price(input_, output, cached))


def listed_price(vendor: str, model: str) -> Price | None:
    """Return the price in the table; None if the model is not listed."""
    row = listed_row(vendor, model)
    return _price(row) if row else None


def _price(row: Mapping[str, Any]) -> Price:
    return Price(
        input=pico(row["input"]),
        output=pico(row["output"]),
        cached=pico(row["cached"]) if "cached" in row else None,
        above=row.get("above"),
        long=_price(row["long"]) if "long" in row else None,
    )
