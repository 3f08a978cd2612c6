"""The models an agent can speak to: opens each on first use and keeps it open."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field

from agent.errors import ConfigError
from agent.providers.base import ClosingProvider, Provider
from agent.providers.cooldown import Cooldowns, KeyRef
from agent.providers.opening import deadlines_of, open_provider
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
from agent.providers.vendors import CONTEXT_TOKENS, VENDORS
from agent.records import frozen
from agent.security.secret_values import secrets_in_map
from agent.usage import Tariff


@frozen
class OpenModel:
    """A model ready for requests; `model` is its vendor's name for it.

    `patience_s` is how long a slow server may be silent; 0 for the others.
    """

    provider: ClosingProvider
    model: str
    context_tokens: int = CONTEXT_TOKENS
    temperature: float | None = None
    max_tokens: int | None = None
    tariff: Tariff | None = None
    fallback_tariffs: tuple[Tariff, ...] = ()
    patience_s: float = 0


@dataclass(slots=True)
class ModelPool:
    """Models by name. `default` is one, `fallbacks` are asked in this order when another one
    cannot answer; `known` are the configured ones.

    `profiles` names the model of each profile; one that is not there, or "default", is the default
    model. A profile's name works like a model's unless a model has that name. `environ` is
    where keys are looked up; `window` caps every model's window, in tokens, if set. A model is
    resolved when it is first used, so that a mistake in an unused one does no harm.
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
    # What servers refused, by model, address and API: all keys and entries for them share it.
    _memories: dict[tuple[str, str | None, str | None], ServerMemory] = field(
        default_factory=dict, init=False, repr=False
    )
    _notices_given: set[str] = field(default_factory=set, init=False, repr=False)
    _notices: list[str] = field(default_factory=list, init=False, repr=False)

    @classmethod
    def of(cls, model: str | Provider | None, environ: Mapping[str, str]) -> "ModelPool":
        """What a library user means by `model`."""
        if model is None or isinstance(model, str):
            return cls(model or default_model(environ), environ=environ)
        models = cls(model.name)
        from agent.providers.custom import CustomProvider

        models._open[model.name] = OpenModel(CustomProvider(model, model.name), model.name)
        return models

    def is_like(self, other: "ModelPool") -> bool:
        """Whether both know the same models in the same roles."""
        return all(
            getattr(self, name) == getattr(other, name)
            for name in ("default", "known", "fallbacks", "window", "profiles")
        )

    def open(self, name: str | None = None) -> OpenModel:
        """The named model, or the default one. Raises `ConfigError` when it cannot be used."""
        name = self._resolve_profile(name or self.default)
        if name not in self._open:
            self._open[name] = self._connect(name)
        return self._open[name]

    def profile(self, name: Profile) -> str:
        """The model's name for a profile: the default one's when the profile's cannot be used.

        That is said once, in the notices.
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
        """Have a person told, once for as long as these models live."""
        if notice not in self._notices_given:
            self._notices_given.add(notice)
            self._notices.append(notice)

    def take_notices(self) -> list[str]:
        """What a person should be told; each sentence is handed out once."""
        notices, self._notices = self._notices, []
        return notices

    def _connect(self, name: str) -> OpenModel:
        config = self.check(name)
        others = [
            self.check(other) for other in self.fallbacks if self._resolve_profile(other) != name
        ]
        candidates = [
            candidate
            for rank, one in enumerate((config, *others))
            for candidate in self._candidates(one, rank)
        ]
        deadlines = deadlines_of(config)
        return OpenModel(
            RetryingProvider(candidates, cooldowns=self.cooldowns, sleep=self.sleep),
            config.model_id,
            min(filter(None, (config.context_tokens, self.window)), default=CONTEXT_TOKENS),
            config.temperature,
            config.max_tokens,
            tariff_of(config),
            tuple(map(tariff_of, others)),
            deadlines.first_byte_s if deadlines.is_final else 0,
        )

    def _candidates(self, config: ModelConfig, rank: int) -> list[ModelCandidate]:
        server = (config.model, config.api_base, config.api)
        memory = self._memories.setdefault(server, ServerMemory())
        return [
            ModelCandidate(open_provider(one, memory=memory), config.model_id, _account(one), rank)
            for one in config.by_key()
        ]

    def check(self, name: str) -> ModelConfig:
        """What the name stands for. Raises `ConfigError`."""
        return resolve_model(self._resolve_profile(name), self.known, self.environ)

    def expire_cooldowns(self, name: str) -> None:
        """Let the next request try this model despite its cooldown. Raises `ConfigError`."""
        config = self.check(name)
        for account in _accounts(config):
            self.cooldowns.expire_early(account, config.model_id)

    def _resolve_profile(self, name: str) -> str:
        """The model that a profile's name stands for; any other name as it is."""
        if any(config.name == name for config in self.known) or name in self._open:
            return name
        return next((self.profile(one) for one in PROFILES if one == name), name)

    def keys(self) -> frozenset[str]:
        """Every key that could be used: of a configured model, or of a vendor in `environ`."""
        names = [name for vendor in VENDORS.values() for name in vendor.key_variables]
        keys = {key for config in self.known for key in (config.api_key or "", *config.api_keys)}
        keys |= {self.environ.get(name, "") for name in names}
        for config in self.known:
            keys.update(secrets_in_map(config.headers))
        return frozenset(keys)

    async def release(self) -> None:
        """Close the connections of this event loop, which ends; in another one they open again.

        A provider that the program brought stays as it is.
        """
        from agent.providers.custom import CustomProvider

        for model in list(self._open.values()):
            if not isinstance(model.provider, CustomProvider):
                await model.provider.aclose()

    async def aclose(self) -> None:
        for model in self._open.values():
            await model.provider.aclose()
        self._open.clear()


def _accounts(config: ModelConfig) -> list[KeyRef]:
    """One for each key of a resolved model, or one without any."""
    return [_account(one) for one in config.by_key()]


def _account(config: ModelConfig) -> KeyRef:
    return KeyRef(config.api_base or config.vendor, next(iter(config.api_keys), ""))
