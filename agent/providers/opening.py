"""Construction of providers for resolved models: API, client and deadlines."""

import re
from collections.abc import Callable
from dataclasses import replace
from inspect import signature
from typing import TYPE_CHECKING, cast
from urllib.parse import urlsplit

from agent.errors import ConfigError
from agent.i18n import t
from agent.providers.base import ClosingProvider, Provider
from agent.providers.bounded import BoundedProvider
from agent.providers.capability_fallback import CapabilityFallback
from agent.providers.http.private_address import (
    SILENCE_TIMEOUT_S,
    is_private_host,
    leads_to_private_address,
)
from agent.providers.http.transport import AiohttpTransport, Deadlines, Endpoint, Transport
from agent.providers.model_facts import facts_of
from agent.providers.optional_parts import ServerMemory
from agent.providers.registry import (
    ModelConfig,
    ProviderFactory,
    is_own_address,
    registered_provider,
)
from agent.providers.server_window import ModelWindow, WindowSource
from agent.providers.vendors import CONTEXT_TOKENS, Dialect, Vendor, find_vendor
from agent.proxies.outbound import DIRECT, OutboundProxy, read_proxy
from agent.types import ReasoningEffort

if TYPE_CHECKING:
    from agent.providers.openai.provider import OpenAICompatibleProvider
    from agent.providers.openai.responses.provider import OpenAIResponsesProvider


def open_provider(
    config: ModelConfig,
    *,
    deadlines: Deadlines | None = None,
    memory: ServerMemory | None = None,
    window: ModelWindow | None = None,
) -> ClosingProvider:
    """Return a provider for a resolved config; it connects on its first request.

    `memory` and `window` are shared by providers for the same server.
    """
    window = window or window_for(config)
    if factory := registered_provider(config.vendor):
        from agent.providers.custom import CustomProvider

        limit = window.tokens if window.is_known else None
        return CustomProvider(_call_factory(factory, config), config.vendor, window=limit)
    vendor = find_vendor(config.vendor)
    if vendor is None:
        from agent.providers.scripted import EchoProvider

        return EchoProvider()

    return build_provider(config, vendor, deadlines or deadlines_of(config), memory, window)


def window_for(config: ModelConfig) -> ModelWindow:
    """Return the window of a resolved model; a server on this machine or network is asked for it.

    Kore itself opens the window of Ollama, which the model may limit further.
    """
    tokens = config.context_tokens or CONTEXT_TOKENS
    vendor = find_vendor(config.vendor)
    if not config.is_window_assumed or vendor is None or vendor.protocol == "anthropic":
        return ModelWindow(tokens, is_known=not config.is_window_assumed)
    is_ollama = vendor.protocol == "ollama"
    endpoint = Endpoint(
        *_place(config, vendor), extra_headers=config.headers, proxy=proxy_of(config)
    )
    server = WindowSource(endpoint.api_base, config.model_id, endpoint.headers, endpoint.proxy)

    async def ask() -> int | None:
        host = urlsplit(endpoint.api_base).hostname or ""
        is_private = is_private_host(host)
        if is_private is None and endpoint.proxy is None:
            is_private = await leads_to_private_address(host)
        if not is_private:
            return None
        if not is_ollama:
            return await server.openai_tokens()
        longest = await server.ollama_tokens()
        return min(longest, tokens) if longest else None

    return ModelWindow(tokens, is_known=is_ollama, ask=ask)


def deadlines_of(config: ModelConfig) -> Deadlines:
    """Return the deadlines for a model: `timeout_s` if set, or long ones for a private server."""
    if config.timeout_s:
        return Deadlines.patient(config.timeout_s)
    vendor = find_vendor(config.vendor)
    is_private = is_private_host(urlsplit(config.api_base or "").hostname or "")
    if is_private:
        return Deadlines.patient(SILENCE_TIMEOUT_S)
    is_own = vendor is not None and is_own_address(config, vendor)
    # A proxy resolves the name itself.
    is_known = is_private is not None or is_own or proxy_of(config) is not None
    return Deadlines(looks_up=not is_known)


def proxy_of(config: ModelConfig) -> OutboundProxy | None:
    """Return the proxy of a resolved model; None for a direct connection."""
    return read_proxy(config.proxy) if config.proxy and config.proxy != DIRECT else None


def _call_factory(factory: ProviderFactory, config: ModelConfig) -> Provider:
    try:
        signature(factory).bind(config)
    except TypeError:
        return cast(Callable[[], Provider], factory)()
    except ValueError:
        pass  # callables written in C may have no signature
    return cast(Callable[[ModelConfig], Provider], factory)(config)


# Printable ASCII without an unexpanded variable reference.
_HEADER = re.compile(r"(?!.*\$\{)[ -~]*")


def build_provider(
    config: ModelConfig,
    vendor: Vendor,
    deadlines: Deadlines,
    memory: ServerMemory | None,
    window: ModelWindow,
) -> ClosingProvider:
    """Return a provider for a vendor, without connecting.

    Raises `ConfigError` for a client or an API that the vendor does not support, and for an invalid
    header.
    """
    if config.transport == "sdk" and vendor.protocol != "openai":
        raise ConfigError(
            t(
                'model {config!r}: transport "sdk" uses the openai library, which does not'
                " support {vendor}'s own protocol; remove it",
                config=config.name,
                vendor=vendor.name,
            )
        )
    if config.api == "responses" and vendor.protocol != "openai":
        raise ConfigError(
            f'model {config.name!r}: api "responses" is for servers that speak OpenAI\'s format; '
            f"{vendor.name} has its own; remove it"
        )
    for name, value in config.headers.items():
        if not _HEADER.fullmatch(value):
            raise ConfigError(
                t(
                    "model {config!r}: the header {name!r} refers to a variable that is not set,"
                    " or has an invalid value",
                    config=config.name,
                    name=name,
                )
            )
    provider = _OPEN[vendor.protocol](config, vendor, deadlines)
    return CapabilityFallback(
        BoundedProvider(provider, window),
        tools=config.tools,
        images=config.images,
        thinking=config.reasoning,
        memory=memory,
    )


def _openai(config: ModelConfig, vendor: Vendor, deadlines: Deadlines) -> ClosingProvider:
    """Return a provider for the Responses API, chat completions, or both.

    A vendor's own address uses the Responses API if the vendor supports it. Any other address uses
    chat completions, and the Responses API when a model requires it.
    """
    api = config.api or (
        "responses" if vendor.responses and is_own_address(config, vendor) else None
    )
    if api == "responses":
        return _openai_responses(config, vendor, deadlines)
    chat = _openai_chat(config, vendor, deadlines)
    if api == "chat":
        return chat
    from agent.providers.openai.api_choice import OpenAIApiChoice

    return OpenAIApiChoice(chat, lambda: _openai_responses(config, vendor, deadlines))


def _openai_chat(
    config: ModelConfig, vendor: Vendor, deadlines: Deadlines
) -> "OpenAICompatibleProvider":
    from agent.providers.openai.provider import OpenAICompatibleProvider

    endpoint = _openai_endpoint(config, vendor, "/chat/completions")
    transport = _openai_transport(config, endpoint, deadlines)
    dialect = replace(dialect_of(config, vendor), efforts=_efforts(config, vendor))
    return OpenAICompatibleProvider(endpoint, transport, dialect=dialect, deadlines=deadlines)


def _openai_responses(
    config: ModelConfig, vendor: Vendor, deadlines: Deadlines
) -> "OpenAIResponsesProvider":
    from agent.providers.openai.responses.provider import PATH, OpenAIResponsesProvider

    endpoint = _openai_endpoint(config, vendor, PATH)
    transport = _openai_transport(config, endpoint, deadlines)
    plain = (config.model_id,) if config.reasoning is False else ()
    return OpenAIResponsesProvider(
        endpoint,
        transport,
        deadlines=deadlines,
        efforts=_efforts(config, vendor),
        plain_models=plain,
    )


def _efforts(config: ModelConfig, vendor: Vendor) -> tuple[ReasoningEffort, ...]:
    """Return the efforts that the model supports, else those of its vendor; empty if unknown."""
    return facts_of(vendor.name, config.model_id).efforts or vendor.dialect.efforts


def _openai_endpoint(config: ModelConfig, vendor: Vendor, path: str) -> Endpoint:
    return Endpoint(
        *_place(config, vendor),
        path,
        extra_headers=config.headers,
        key_source=_endpoint_source(config),
        proxy=proxy_of(config),
    )


def _openai_transport(config: ModelConfig, endpoint: Endpoint, deadlines: Deadlines) -> Transport:
    if config.transport == "sdk":
        from agent.providers.http.openai_sdk_transport import SdkTransport

        if endpoint.proxy and endpoint.proxy.is_socks:
            raise ConfigError(
                t(
                    'model {config!r}: transport "sdk" cannot use the SOCKS proxy {proxy};'
                    " remove it",
                    config=config.name,
                    proxy=endpoint.proxy.name,
                )
            )
        return SdkTransport(endpoint, deadlines)
    return AiohttpTransport(endpoint, deadlines)


def dialect_of(config: ModelConfig, vendor: Vendor) -> Dialect:
    """Return the vendor's dialect; at another address, only its common features."""
    if is_own_address(config, vendor):
        return vendor.dialect
    return replace(
        vendor.dialect, max_tokens_name="max_tokens", null_content=False, takes_cache_key=False
    )


def _anthropic(config: ModelConfig, vendor: Vendor, deadlines: Deadlines) -> ClosingProvider:
    from agent.providers.anthropic.provider import AnthropicProvider, anthropic_endpoint

    endpoint = anthropic_endpoint(*_place(config, vendor), config.headers, _endpoint_source(config))
    endpoint = replace(endpoint, proxy=proxy_of(config))
    return AnthropicProvider(endpoint, deadlines=deadlines, reply_tokens=config.reply_tokens)


def _ollama(config: ModelConfig, vendor: Vendor, deadlines: Deadlines) -> ClosingProvider:
    from agent.providers.ollama import PATH, OllamaProvider

    endpoint = Endpoint(
        *_place(config, vendor),
        PATH,
        extra_headers=config.headers,
        key_source=_endpoint_source(config),
        proxy=proxy_of(config),
    )
    return OllamaProvider(endpoint, context_tokens=config.context_tokens, deadlines=deadlines)


def _place(config: ModelConfig, vendor: Vendor) -> tuple[str, str, str, str | None]:
    """Return the vendor's name, address and key, and the variable that usually sets the key."""
    return (
        vendor.name,
        config.api_base or vendor.api_base,
        config.api_key or "",
        next(iter(vendor.key_variables), None),
    )


def _endpoint_source(config: ModelConfig) -> str:
    return next(iter(config.key_sources), "")


_OPEN = {"anthropic": _anthropic, "ollama": _ollama, "openai": _openai}
