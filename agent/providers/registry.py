"""From a name to a provider: `vendor/model`, named models, and whose key is at hand."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING, Literal, get_args

from agent.errors import ConfigError
from agent.i18n import t
from agent.providers.addresses import normalise_base
from agent.providers.base import Provider
from agent.providers.model_facts import ModelFacts, facts_of
from agent.providers.vendors import ALIASES, CONTEXT_TOKENS, VENDORS, Vendor, find_vendor
from agent.proxies.outbound import DIRECT, proxy_for
from agent.records import frozen

if TYPE_CHECKING:
    pass

OFFLINE = "offline/echo"

# What a model is wanted for; "default" answers people.
Profile = Literal["default", "task", "reasoning", "quick"]

PROFILES: tuple[Profile, ...] = get_args(Profile)

_REFERENCE = re.compile(r"\$\{(\w+)\}")

# What an HTTP header can carry.
_KEY = re.compile(r"[!-~]+")


@frozen
class ModelConfig:
    """A model by name: as configured, and after `resolve_model` with nothing left open.

    `model` is `vendor/model`. `transport` picks the HTTP client, `headers` go with every request,
    `tools` says how the model is told of them, `api` which of OpenAI's two APIs it is asked by
    (None: whichever it needs), `context_tokens` is the size of its window, `reply_tokens` the
    longest reply it can give, `timeout_s` the longest silence to wait for, `images` and
    `reasoning` whether it sees and thinks (None: not known).
    `proxy` is the address of a proxy, or "none"; after `resolve_model` it is the one to use.
    `temperature` and `max_tokens` are this model's own, if it has any. Prices are in dollars for a
    million tokens, and win over those that Kore knows. `api_keys` are asked in this order, one
    after the other, in place of `api_key`. `key_sources` names for people where each of them came
    from.
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

    @property
    def vendor(self) -> str:
        name = self.model.partition("/")[0]
        return ALIASES.get(name, name)

    @property
    def model_id(self) -> str:
        """The vendor's own name for the model, as requests carry it."""
        return self.model.partition("/")[2]

    def by_key(self) -> "list[ModelConfig]":
        """This resolved model with each of its keys alone; without a key, itself."""
        pairs = zip(self.api_keys, self.key_sources or ("",) * len(self.api_keys), strict=True)
        return [
            replace(self, api_key=key, api_keys=(key,), key_sources=(source,))
            for key, source in pairs
        ] or [self]


# A function of the config or of nothing, mostly the provider's class.
ProviderFactory = Callable[[ModelConfig], Provider] | Callable[[], Provider]

# What `register_provider` was told; the one thing here that outlives a call.
_registered: dict[str, ProviderFactory] = {}


def register_provider(name: str, factory: ProviderFactory) -> None:
    """Make `name/model` reach what `factory` makes, of its `ModelConfig` if it takes one.

    Raises `ConfigError` for a name that Kore itself uses; a name of one's own may be replaced.
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
    """The names that can stand before the `/` of a model's name: the vendors that Kore knows, and
    those that were registered."""
    return [*VENDORS, *_registered, "offline"]


def resolve_model(
    name: str, configured: Sequence[ModelConfig], environ: Mapping[str, str]
) -> ModelConfig:
    """What `name` stands for: an entry of `configured` (model_list), or `vendor/model`.

    Address, window and key come from the entry, then from `environ`, the address and the window
    then from the vendor; what is known of the model wins over what holds for its vendor. Raises
    `ConfigError` for an unknown name, a bad address or a missing key.
    """
    config = next((entry for entry in configured if entry.name == name), None)
    if config is None:
        config = ModelConfig(name, name)
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
        images=facts.images if config.images is None else config.images,
        reasoning=facts.reasoning if config.reasoning is None else config.reasoning,
        reply_tokens=config.reply_tokens or facts.reply_tokens,
        proxy=_proxy(config, api_base, environ),
    )


def with_address(config: ModelConfig, environ: Mapping[str, str]) -> ModelConfig:
    """With the address that `environ` has for the vendor, unless there is one already.

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
    """As configured, else the model's, else its vendor's; behind another address than the vendor's
    own, a model that is not known may be any."""
    vendor = find_vendor(config.vendor)
    if config.context_tokens or vendor is None:
        return config.context_tokens or CONTEXT_TOKENS
    if tokens := facts_of(vendor.name, config.model_id).window_tokens:
        return tokens
    is_own = is_own_address(config, vendor)
    return vendor.context_tokens if is_own else min(vendor.context_tokens, CONTEXT_TOKENS)


def is_own_address(config: ModelConfig, vendor: Vendor) -> bool:
    """Return whether the model is asked at its vendor's own address."""
    return (config.api_base or vendor.api_base).rstrip("/") == vendor.api_base


def default_model(environ: Mapping[str, str], ollama_models: Sequence[str] = ()) -> str:
    """The model to use when nothing is configured.

    The first vendor whose key is in `environ`, else the first local Ollama model, else the
    offline stand-in.
    """
    for vendor in VENDORS.values():
        if vendor.default_model and any(environ.get(name) for name in vendor.key_variables):
            return f"{vendor.name}/{vendor.default_model}"
    return f"ollama/{ollama_models[0]}" if ollama_models else OFFLINE


def _address(config: ModelConfig, vendor: Vendor) -> str:
    if not config.api_base:
        return vendor.api_base
    try:
        address = normalise_base(config.api_base, vendor.version)
        # Ollama's own interface stands beside the compatible one, whose address many have.
        return re.sub("/(v1|api)$", "", address) if vendor.protocol == "ollama" else address
    except ConfigError as exc:
        raise ConfigError(t("model {config!r}: {reason}", config=config.name, reason=exc)) from None


def _proxy(config: ModelConfig, api_base: str | None, environ: Mapping[str, str]) -> str | None:
    """The proxy that leads to the model; "none" for a direct connection."""
    try:
        proxy = proxy_for(api_base or "", environ, config.proxy)
    except ConfigError as exc:
        raise ConfigError(t("model {config!r}: {reason}", config=config.name, reason=exc)) from None
    return proxy.url if proxy else DIRECT


def _keys(config: ModelConfig, vendor: Vendor, environ: Mapping[str, str]) -> dict[str, str]:
    """Each key with its source."""
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
    """The entry's own keys, with the variables that they name filled in; each with its source."""
    keys = config.api_keys or (config.api_key or "",)
    sources = config.key_sources or tuple(_source(config, key) for key in keys)
    return {
        _expand_key(config, key, environ): source
        for key, source in zip(keys, sources, strict=True)
        if key
    }


def _source(config: ModelConfig, key: str) -> str:
    """Where a key without a named source comes from."""
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
    from difflib import get_close_matches

    matches = get_close_matches(name, names, 1)
    return t("; did you mean {found!r}?", found=matches[0] + rest) if matches else ""
