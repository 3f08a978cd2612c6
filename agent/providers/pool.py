"""Pool of models that are opened on first use."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field

from agent.errors import ConfigError
from agent.providers.base import ClosingProvider, Provider
from agent.providers.cooldown import Cooldowns, KeyRef
from agent.providers.model_facts import facts_of
from agent.providers.model_settings import ModelSettings
from agent.providers.opening import deadlines_of, open_provider, window_for
from agent.providers.optional_parts import ServerMemory
from agent.providers.pricing import tariff_of
from agent.providers.registry import (
    PROFILES,
    ModelConfig,
    Profile,
    default_model,
    resolve_model,
)
from agent.providers.retry import ModelCandidate, RetryingProvider
from agent.providers.server_window import ModelWindow
from agent.providers.usage import Tariff
from agent.providers.vendors import CONTEXT_TOKENS, VENDORS
from agent.records import frozen
from agent.security.secret_values import secrets_in_map


@frozen
class OpenModel:
    """Model ready for requests; `model` is the vendor's name for it.

    `context_tokens` is the size of its window, unless its server states another, at most
    `max_window`.
    `patience_s` is the longest silence allowed for a slow server; 0 for other servers. `project`
    are the model's settings for work in a project, unless others are chosen. `patches` means that
    it edits files best with patches.
    """

    provider: ClosingProvider
    model: str
    context_tokens: int = CONTEXT_TOKENS
    temperature: float | None = None
    max_tokens: int | None = None
    tariff: Tariff | None = None
    fallback_tariffs: tuple[Tariff, ...] = ()
    patience_s: float = 0
    project: ModelSettings | None = None
    patches: bool = False
    window: ModelWindow | None = None
    max_window: int | None = None

    @property
    def window_tokens(self) -> int:
        """The size of the window by what is known now."""
        is_stated = self.window is not None and self.window.is_stated
        tokens = self.window.tokens if self.window and is_stated else self.context_tokens
        return min(tokens, self.max_window or tokens)


@dataclass(slots=True)
class ModelPool:
    """Models by name, opened on first use.

    `default` names the default model. `fallbacks` are asked in order when another model cannot
    answer. `known` are the configured models.

    `profiles` maps profiles to models; a missing profile, or "default", means the default model. A
    profile's name can be used like a model's, unless a model has the same name. Keys are looked up
    in `environ`; `window` caps every model's window, in tokens, if set. Models are resolved on
    first use, so that a mistake in an unused entry does no harm.
    """

    default: str
    known: Sequence[ModelConfig] = ()
    fallbacks: Sequence[str] = ()
    environ: Mapping[str, str] = field(default_factory=dict, repr=False)
    window: int | None = None
    profiles: Mapping[str, str] = field(default_factory=dict)
    cooldowns: Cooldowns = field(default_factory=Cooldowns, repr=False)
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    _open: dict[str, OpenModel] = field(default_factory=dict, init=False, repr=False)
    # Refusals by servers, shared by all keys and entries with the same model, address and API.
    _memories: dict[tuple[str, str | None, str | None], ServerMemory] = field(
        default_factory=dict, init=False, repr=False
    )
    _notices_given: set[str] = field(default_factory=set, init=False, repr=False)
    _notices: list[str] = field(default_factory=list, init=False, repr=False)

    @classmethod
    def of(cls, model: str | Provider | None, environ: Mapping[str, str]) -> "ModelPool":
        """Return the pool for the `model` argument of a library user."""
        if model is None or isinstance(model, str):
            return cls(model or default_model(environ), environ=environ)
        models = cls(model.name)
        from agent.providers.custom import CustomProvider

        models._open[model.name] = OpenModel(CustomProvider(model, model.name), model.name)
        return models

    def is_like(self, other: "ModelPool") -> bool:
        """Return whether both pools have the same models in the same roles."""
        return all(
            getattr(self, name) == getattr(other, name)
            for name in ("default", "known", "fallbacks", "window", "profiles")
        )

    def open(self, name: str | None = None) -> OpenModel:
        """Return the named model, or the default one. Raises `ConfigError` if it cannot be used."""
        name = self._resolve_profile(name or self.default)
        if name not in self._open:
            self._open[name] = self._connect(name)
        return self._open[name]

    def profile(self, name: Profile) -> str:
        """Return the model's name for a profile, or the default model if it cannot be used.

        A notice reports the replacement once.
        """
        model = self.profiles.get(name, "default")
        if name == "default" or model == "default":
            return self.default
        try:
            resolve_model(model, self.known, self.environ)
        except ConfigError as exc:
            self.tell(
                f"the model of profile {name!r} cannot be used, {self.default} takes its "
                f"place: {exc}"
            )
            return self.default
        return model

    def tell(self, notice: str) -> None:
        """Queue a notice for the person, at most once during the lifetime of the pool."""
        if notice not in self._notices_given:
            self._notices_given.add(notice)
            self._notices.append(notice)

    def take_notices(self) -> list[str]:
        """Return the pending notices for the person; each notice is returned once."""
        notices, self._notices = self._notices, []
        return notices

    def _connect(self, name: str) -> OpenModel:
        config = self.check(name)
        fallbacks = [
            self.check(other) for other in self.fallbacks if self._resolve_profile(other) != name
        ]
        windows = [window_for(member) for member in (config, *fallbacks)]
        candidates = [
            candidate
            for rank, member in enumerate((config, *fallbacks))
            for candidate in self._candidates(member, rank, windows[rank])
        ]
        deadlines = deadlines_of(config)
        facts = facts_of(config.vendor, config.model_id)
        return OpenModel(
            RetryingProvider(candidates, cooldowns=self.cooldowns, sleep=self.sleep),
            config.model_id,
            config.context_tokens or CONTEXT_TOKENS,
            config.temperature,
            config.max_tokens,
            tariff_of(config),
            tuple(map(tariff_of, fallbacks)),
            deadlines.first_byte_s if deadlines.is_final else 0,
            ModelSettings(**facts.project),
            facts.patches,
            windows[0],
            self.window,
        )

    def _candidates(
        self, config: ModelConfig, rank: int, window: ModelWindow
    ) -> list[ModelCandidate]:
        server = (config.model, config.api_base, config.api)
        memory = self._memories.setdefault(server, ServerMemory())
        return [
            ModelCandidate(
                open_provider(model_config, memory=memory, window=window),
                config.model_id,
                _account(model_config),
                rank,
            )
            for model_config in config.by_key()
        ]

    def check(self, name: str) -> ModelConfig:
        """Return the resolved model for a name. Raises `ConfigError`."""
        return resolve_model(self._resolve_profile(name), self.known, self.environ)

    def expire_cooldowns(self, name: str) -> None:
        """Let the next request try this model despite its cooldown. Raises `ConfigError`."""
        config = self.check(name)
        for account in _accounts(config):
            self.cooldowns.expire_early(account, config.model_id)

    def _resolve_profile(self, name: str) -> str:
        """Return the model of a profile; return any other name unchanged."""
        if any(config.name == name for config in self.known) or name in self._open:
            return name
        return next((self.profile(profile) for profile in PROFILES if profile == name), name)

    def keys(self) -> frozenset[str]:
        """Return all secrets: configured keys, vendor keys in `environ`, and header values."""
        names = [name for vendor in VENDORS.values() for name in vendor.key_variables]
        keys = {key for config in self.known for key in (config.api_key or "", *config.api_keys)}
        keys |= {self.environ.get(name, "") for name in names}
        for config in self.known:
            keys.update(secrets_in_map(config.headers))
        return frozenset(keys)

    async def release(self) -> None:
        """Close the connections of this event loop, which is ending; another loop reopens them.

        A provider that the program passed in stays open.
        """
        from agent.providers.custom import CustomProvider

        async with AsyncExitStack() as stack:
            for model in self._open.values():
                if not isinstance(model.provider, CustomProvider):
                    stack.push_async_callback(model.provider.aclose)

    async def aclose(self) -> None:
        models = list(self._open.values())
        self._open.clear()
        async with AsyncExitStack() as stack:
            for model in models:
                stack.push_async_callback(model.provider.aclose)


def _accounts(config: ModelConfig) -> list[KeyRef]:
    """Return an account for each key of a resolved model, or one account without a key."""
    return [_account(model_config) for model_config in config.by_key()]


def _account(config: ModelConfig) -> KeyRef:
    return KeyRef(config.api_base or config.vendor, next(iter(config.api_keys), ""))
