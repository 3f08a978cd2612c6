"""A provider for a vendor that Kore knows: its protocol, its headers, its client."""

import re
from dataclasses import replace

from agent.errors import ConfigError
from agent.providers.base import ClosingProvider
from agent.providers.capability_fallback import CapabilityFallback
from agent.providers.http.transport import AiohttpTransport, Deadlines, Endpoint, Transport
from agent.providers.openai.request import Dialect
from agent.providers.registry import ModelConfig
from agent.providers.vendors import Vendor

# Printable ASCII without a reference that was not filled in.
_HEADER = re.compile(r"(?!.*\$\{)[ -~]*")


def build_provider(config: ModelConfig, vendor: Vendor, deadlines: Deadlines) -> ClosingProvider:
    """Nothing is connected yet. Raises `ConfigError` for a client that cannot reach the vendor."""
    if config.transport == "sdk" and vendor.protocol != "openai":
        raise ConfigError(
            f'model {config.name!r}: transport "sdk" is the openai library, which does not speak '
            f"{vendor.name}'s own protocol; leave it out"
        )
    for name, value in config.headers.items():
        if not _HEADER.fullmatch(value):
            raise ConfigError(
                f"model {config.name!r}: its header {name!r} refers to a variable that is not set, "
                "or holds what no header can"
            )
    opened = _OPEN[vendor.protocol](config, vendor, deadlines)
    return CapabilityFallback(opened, tools=config.tools)


def _openai(config: ModelConfig, vendor: Vendor, deadlines: Deadlines) -> ClosingProvider:
    from agent.providers.openai.provider import OpenAICompatibleProvider

    endpoint = Endpoint(
        *_place(config, vendor), extra_headers=config.headers, key_source=_endpoint_source(config)
    )
    transport: Transport
    if config.transport == "sdk":
        from agent.providers.http.openai_sdk_transport import SdkTransport

        transport = SdkTransport(endpoint, deadlines)
    else:
        transport = AiohttpTransport(endpoint, deadlines)
    return OpenAICompatibleProvider(
        endpoint, transport, dialect=dialect_of(config, vendor), deadlines=deadlines
    )


def dialect_of(config: ModelConfig, vendor: Vendor) -> Dialect:
    """The vendor's; another server that takes its format knows only what all of them know."""
    if (config.api_base or vendor.api_base).rstrip("/") == vendor.api_base:
        return vendor.dialect
    return replace(vendor.dialect, max_tokens_name="max_tokens", null_content=False)


def _anthropic(config: ModelConfig, vendor: Vendor, deadlines: Deadlines) -> ClosingProvider:
    from agent.providers.anthropic.provider import AnthropicProvider, anthropic_endpoint

    endpoint = anthropic_endpoint(*_place(config, vendor), config.headers, _endpoint_source(config))
    return AnthropicProvider(endpoint, deadlines=deadlines)


def _ollama(config: ModelConfig, vendor: Vendor, deadlines: Deadlines) -> ClosingProvider:
    from agent.providers.ollama.provider import PATH, OllamaProvider

    endpoint = Endpoint(
        *_place(config, vendor),
        PATH,
        extra_headers=config.headers,
        key_source=_endpoint_source(config),
    )
    return OllamaProvider(endpoint, context_tokens=config.context_tokens, deadlines=deadlines)


def _place(config: ModelConfig, vendor: Vendor) -> tuple[str, str, str, str | None]:
    """The vendor's name, its address, the key, and where people set the key."""
    return (
        vendor.name,
        config.api_base or vendor.api_base,
        config.api_key or "",
        next(iter(vendor.key_variables), None),
    )


def _endpoint_source(config: ModelConfig) -> str:
    return next(iter(config.key_sources), "")


_OPEN = {"anthropic": _anthropic, "ollama": _ollama, "openai": _openai}
