"""Model registry: resolution of names to vendors, validated addresses and keys."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from typing import Literal, get_args
from urllib.parse import SplitResult, urlsplit

from agent.errors import ConfigError
from agent.i18n import t
from agent.providers.base import Provider
from agent.providers.model_facts import ModelFacts, facts_of
from agent.providers.vendors import ALIASES, CONTEXT_TOKENS, VENDORS, Vendor, find_vendor
from agent.proxies.outbound import DIRECT, proxy_for
from agent.records import frozen
from agent.text.similar_names import similar_names

_VERSION_PART = re.compile(r"v\d+\w*")

# API paths that people leave at the end of an address.
_METHODS = ("/chat/completions", "/responses", "/messages", "/api/chat")


def normalise_base(address: str, version: str | None) -> str:
    """Return the address without a trailing slash or API path, and with a version.

    `version` is appended when the address names none. Raises `ConfigError` unless the address is a
    plain http address without user name and password.
    """
    if "@" in address.partition("//")[2].partition("/")[0]:
        raise ConfigError(
            t("api_base contains a user name or password; use the plain address and set api_key")
        )
    parts = _parts(address.strip())
    if parts is None:
        raise ConfigError(
            t(
                "api_base: found {address!r}, expected a URL such as https://example.com/v1",
                address=address,
            )
        )
    path = parts.path.rstrip("/")
    for method in _METHODS:
        path = path.removesuffix(method).rstrip("/")
    if version and not any(map(_VERSION_PART.fullmatch, path.split("/"))):
        path = f"{path}/{version}"
    return f"{parts.scheme}://{parts.netloc}{path}"


def _parts(address: str) -> SplitResult | None:
    """Return the parts of an http address that a client can connect to, else None."""
    try:
        parts = urlsplit(address)
        host = (parts.hostname or "").encode("idna")
        usable = parts.scheme in ("http", "https") and host and parts.port != 0
    except ValueError:
        return None
    return parts if usable and not host.split()[1:] else None


OFFLINE = "offline/echo"

# Purpose of a model; "default" answers people.
Profile = Literal["default", "task", "reasoning", "quick"]

PROFILES: tuple[Profile, ...] = get_args(Profile)

_REFERENCE = re.compile(r"\$\{(\w+)\}")

# Characters of a key that an HTTP header can carry.
_KEY = re.compile(r"[!-~]+")


@frozen
class ModelConfig:
    """Named model as configured; complete after `resolve_model`.

    `model` is `vendor/model`. `transport` selects the HTTP client. `headers` are sent with every
    request. `tools` selects how tools are described to the model, `api` one of OpenAI's two APIs
    (None: chosen for the model). `context_tokens` is the size of the window, `reply_tokens` the
    longest possible reply, and `timeout_s` the longest silence to wait for. `images` and
    `reasoning` say whether the model sees and thinks (None: unknown). `proxy` is the address of a
    proxy, or "none"; after `resolve_model` it is the proxy to use. `is_window_assumed` means that
    nothing states the size of the window of the resolved model. `temperature` and `max_tokens`
    are specific to this model. Prices are in dollars per million tokens, and override the bundled
    prices. `api_keys` are tried in order, instead of `api_key`. `key_sources` names the source of
    each key for people.
    """

    name: str
    model: str
    api_base: str | None = None
    api_key: str | None = field(default=None, repr=False)
    transport: Literal["aiohttp", "sdk"] = "aiohttp"
    context_tokens: int | None = None
    temperature: float | None = None
    max_tokens: int | None = None
    price_input_usd: float | None = None
    price_output_usd: float | None = None
    price_cached_usd: float | None = None
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    tools: Literal["native", "xml"] | None = None
    api: Literal["chat", "responses"] | None = None
    images: bool | None = None
    reasoning: bool | None = None
    reply_tokens: int | None = None
    api_keys: tuple[str, ...] = field(default=(), repr=False)
    key_sources: tuple[str, ...] = ()
    timeout_s: float | None = None
    proxy: str | None = field(default=None, repr=False)
    is_window_assumed: bool = False

    @property
    def vendor(self) -> str:
        name = self.model.partition("/")[0]
        return ALIASES.get(name, name)

    @property
    def model_id(self) -> str:
        """Vendor's name for the model, as sent in requests."""
        return self.model.partition("/")[2]

    def by_key(self) -> "list[ModelConfig]":
        """Return a copy of this resolved model for each of its keys; without a key, only itself."""
        pairs = zip(self.api_keys, self.key_sources or ("",) * len(self.api_keys), strict=True)
        return [
            replace(self, api_key=key, api_keys=(key,), key_sources=(source,))
            for key, source in pairs
        ] or [self]


# A function of the config or of nothing, usually the provider's class.
ProviderFactory = Callable[[ModelConfig], Provider] | Callable[[], Provider]

# Factories from `register_provider`; the only state in this module.
_registered: dict[str, ProviderFactory] = {}


def register_provider(name: str, factory: ProviderFactory) -> None:
    """Register a factory of providers for `name/model`; it may accept a `ModelConfig`.

    Raises `ConfigError` for a name that Kore itself uses; a custom name may be registered again.
    """
    if not name or "/" in name or find_vendor(name) or name == "offline":
        raise ConfigError(t("{name!r} cannot be the name of a custom provider", name=name))
    if not callable(factory):
        raise ConfigError(
            t(
                "provider {name!r}: expected a class, or a function that returns a provider;"
                " pass an instance as model instead",
                name=name,
            )
        )
    _registered[name] = factory


def registered_provider(name: str) -> ProviderFactory | None:
    return _registered.get(name)


def list_providers() -> list[str]:
    """Return the names allowed before the `/` of a model's name.

    These are the vendors that Kore knows, registered providers and "offline".
    """
    return [*VENDORS, *_registered, "offline"]


def resolve_model(
    name: str, configured: Sequence[ModelConfig], environ: Mapping[str, str]
) -> ModelConfig:
    """Return the model for a name: an entry of `configured` (model_list), or `vendor/model`.

    A vendor's name alone means its default model.

    Address and key come from the entry, else from `environ`; the address finally comes from the
    vendor. The window comes from the entry, else from the facts about the model, else from the
    vendor. Raises `ConfigError` for an unknown name, a bad address or a missing key.
    """
    config = next((entry for entry in configured if entry.name == name), None)
    if config is None:
        config = ModelConfig(name, _vendors_default(name))
    if not config.vendor or not config.model_id:
        raise _unknown_name(name, configured)
    vendor = find_vendor(config.vendor)
    if vendor is None:
        if config.vendor not in _registered and config.model != OFFLINE:
            raise _unknown_vendor(config)
        key_sources = _configured_keys(config, environ)
        api_base = config.api_base
    else:
        config = with_address(config, environ)
        key_sources = _keys(config, vendor, environ)
        api_base = _address(config, vendor)
    facts = facts_of(config.vendor, config.model_id) if vendor else ModelFacts()
    return replace(
        config,
        api_base=api_base,
        api_key=next(iter(key_sources), None),
        api_keys=tuple(key_sources),
        key_sources=tuple(key_sources.values()),
        context_tokens=window_of(config),
        is_window_assumed=_known_window(config) is None,
        images=facts.images if config.images is None else config.images,
        reasoning=facts.reasoning if config.reasoning is None else config.reasoning,
        reply_tokens=config.reply_tokens or facts.reply_tokens,
        proxy=_proxy(config, api_base, environ),
    )


def _vendors_default(name: str) -> str:
    """Return the default model of the vendor with this name; any other name is unchanged."""
    vendor = find_vendor(name)
    if vendor is None or vendor.default_model is None:
        return name
    return f"{vendor.name}/{vendor.default_model}"


def with_address(config: ModelConfig, environ: Mapping[str, str]) -> ModelConfig:
    """Return the config with the vendor's address from `environ`, unless it has an address.

    Raises `ConfigError`, which names the variable.
    """
    vendor = find_vendor(config.vendor)
    variable = vendor.address_variable if vendor else None
    if vendor is None or variable is None or config.api_base:
        return config
    address = environ.get(variable, "").strip()
    if not address:
        return config
    try:
        return replace(config, api_base=normalise_base(address, vendor.version))
    except ConfigError as exc:
        reason = str(exc).removeprefix("api_base").lstrip(": ")
        raise ConfigError(
            t("environment variable {name}: {reason}", name=variable, reason=reason)
        ) from None


def window_of(config: ModelConfig) -> int:
    """Return the window in tokens: as configured, else the model's, else the vendor's.

    An unknown model at another address than the vendor's own may be any model, so its window is
    assumed to be at most `CONTEXT_TOKENS`.
    """
    vendor = find_vendor(config.vendor)
    assumed = min(vendor.context_tokens, CONTEXT_TOKENS) if vendor else CONTEXT_TOKENS
    return _known_window(config) or assumed


def _known_window(config: ModelConfig) -> int | None:
    """Return the window in tokens if something states it."""
    vendor = find_vendor(config.vendor)
    if config.context_tokens or vendor is None:
        return config.context_tokens
    if tokens := facts_of(vendor.name, config.model_id).window_tokens:
        return tokens
    # Vendors without keys are programs for any model.
    is_known = vendor.key_variables and is_own_address(config, vendor)
    return vendor.context_tokens if is_known else None


def is_own_address(config: ModelConfig, vendor: Vendor) -> bool:
    """Return whether the model is asked at its vendor's own address."""
    return (config.api_base or vendor.api_base).rstrip("/") == vendor.api_base


def default_model(environ: Mapping[str, str], local_models: Sequence[str] = ()) -> str:
    """Return the model to use if nothing is configured.

    The order is: the first vendor whose key is in `environ`, the first of the `local_models` (as
    `vendor/model`), the offline model.
    """
    for vendor in VENDORS.values():
        if vendor.default_model and any(environ.get(name) for name in vendor.key_variables):
            return f"{vendor.name}/{vendor.default_model}"
    return next(iter(local_models), OFFLINE)


def _address(config: ModelConfig, vendor: Vendor) -> str:
    if not config.api_base:
        return vendor.api_base
    try:
        address = normalise_base(config.api_base, vendor.version)
        # Ollama also has a compatible interface, whose address many people configure.
        return re.sub("/(v1|api)$", "", address) if vendor.protocol == "ollama" else address
    except ConfigError as exc:
        raise ConfigError(t("model {config!r}: {reason}", config=config.name, reason=exc)) from None


def _proxy(config: ModelConfig, api_base: str | None, environ: Mapping[str, str]) -> str | None:
    """Return the proxy for the model; "none" for a direct connection."""
    try:
        proxy = proxy_for(api_base or "", environ, config.proxy)
    except ConfigError as exc:
        raise ConfigError(t("model {config!r}: {reason}", config=config.name, reason=exc)) from None
    return proxy.url if proxy else DIRECT


def _keys(config: ModelConfig, vendor: Vendor, environ: Mapping[str, str]) -> dict[str, str]:
    """Return each key with its source."""
    keys = _configured_keys(config, environ)
    if not keys:
        names = [name for name in vendor.key_variables if environ.get(name)][:1]
        keys = {environ[name]: _variable(name) for name in names}
    if not keys and vendor.key_variables and not config.api_base:
        raise ConfigError(
            t(
                "model {config!r} needs an API key for {vendor}: set the environment "
                "variable {key_variables}, or api_key in model_list",
                config=config.name,
                vendor=vendor.name,
                key_variables=vendor.key_variables[0],
            )
        )
    keys = {key.strip(): source for key, source in keys.items() if key.strip()}
    if not all(map(_KEY.fullmatch, keys)):
        raise ConfigError(
            t(
                "model {config!r}: the API key contains spaces, line breaks or non-ASCII "
                "characters; copy it again",
                config=config.name,
            )
        )
    return keys


def _configured_keys(config: ModelConfig, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the entry's own keys with variables expanded, each with its source."""
    keys = config.api_keys or (config.api_key or "",)
    sources = config.key_sources or tuple(_source(config, key) for key in keys)
    return {
        _expand_key(config, key, environ): source
        for key, source in zip(keys, sources, strict=True)
        if key
    }


def _source(config: ModelConfig, key: str) -> str:
    """Return the source of a key that has no named source."""
    if reference := _REFERENCE.fullmatch(key.strip()):
        return _variable(reference[1])
    return t("the key of the model {name!r}", name=config.name)


def _variable(name: str) -> str:
    return t("environment variable {name}", name=name)


def _expand_key(config: ModelConfig, key: str, environ: Mapping[str, str]) -> str:
    reference = _REFERENCE.fullmatch(key.strip())
    if reference is None:
        return key
    value = environ.get(reference[1])
    if not value:
        raise ConfigError(
            t(
                "model {config!r}: its key refers to the environment variable "
                "{reference}, which is not set",
                config=config.name,
                reference=reference[1],
            )
        )
    return value


def _unknown_name(name: str, configured: Sequence[ModelConfig]) -> ConfigError:
    names = [entry.name for entry in configured]
    guess = suggest_names(name, [*names, *PROFILES])
    return ConfigError(
        t(
            "unknown model {name!r}: expected a model_name from model_list ({known}) or "
            "vendor/model, such as openai/gpt-5{guess}",
            name=name,
            known=", ".join(names) or t("which is empty"),
            guess=guess,
        )
    )


def _unknown_vendor(config: ModelConfig) -> ConfigError:
    names = [*VENDORS, *ALIASES, *_registered, "offline"]
    guess = suggest_names(config.vendor, names, "/" + config.model_id)
    if config.vendor == "offline":
        guess = t("; did you mean {found!r}?", found=OFFLINE)
    return ConfigError(
        t(
            "unknown vendor or model {name!r}; known vendors: {known}{guess}",
            name=config.model,
            known=", ".join([*VENDORS, *_registered, "offline"]),
            guess=guess,
        )
    )


def suggest_names(name: str, names: Sequence[str], rest: str = "") -> str:
    matches = similar_names(name, names)
    return t("; did you mean {found!r}?", found=matches[0] + rest) if matches else ""
