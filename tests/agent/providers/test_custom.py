"""Third-party providers with only the required members."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

import kore
from agent.errors import BadReply, ConfigError, KoreError, TimedOut, Unavailable
from agent.events import ModelEvent, Reply, Retry, TextDelta
from agent.providers import registry
from agent.providers.base import ModelRequest
from agent.providers.custom import CustomProvider
from agent.providers.pool import ModelPool
from agent.providers.registry import ModelConfig
from agent.types import assistant, user

ASKED = ModelRequest("m", "", (user("hi"),))


class MinimalProvider:
    """A provider with only the required members."""

    name = "least"

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        yield TextDelta("yes")
        yield Reply(assistant("yes"))


class ConfiguredProvider(MinimalProvider):
    def __init__(self, config: ModelConfig) -> None:
        self._id = config.model_id

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        yield Reply(assistant(f"{self._id} of {request.model}"))


class Fails(MinimalProvider):
    def __init__(self, *errors: Exception) -> None:
        self._errors = list(errors)
        self.closed = 0

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        if self._errors:
            raise self._errors.pop(0)
        yield Reply(assistant("at last"))

    async def aclose(self) -> None:
        self.closed += 1


async def events_of(provider: CustomProvider) -> list[ModelEvent]:
    return [event async for event in provider.stream(ASKED)]


@pytest.fixture(autouse=True)
def _forget(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove the registrations of a test after it."""
    monkeypatch.setattr(registry, "_registered", {})


@pytest.mark.parametrize(
    ("made", "text"),
    [
        (MinimalProvider, "yes"),
        (ConfiguredProvider, "one of one"),
        (lambda: MinimalProvider(), "yes"),
    ],
)
async def test_registered_class_with_only_a_stream_answers(made: Any, text: str) -> None:
    kore.register_provider("mine", made)
    shown = []
    async for event in kore.stream("hi", model="mine/one"):
        match event:
            case kore.events.TextDelta(piece):
                shown.append(piece)
            case kore.events.Done(result):
                assert result.text == text
    assert "".join(shown) == text


async def test_provider_instance_is_used_as_model() -> None:
    assert (await kore.run("hi", model=MinimalProvider())).text == "yes"


async def test_existing_provider_name_cannot_be_registered() -> None:
    with pytest.raises(ConfigError, match="expected a class"):
        kore.register_provider("mine", MinimalProvider())  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (ConnectionResetError("gone"), Unavailable),
        (TimeoutError(), TimedOut),
        (KoreError("as it is"), KoreError),
        (ValueError("a bug"), ValueError),
    ],
)
async def test_connection_errors_are_mapped_and_bugs_propagate(
    error: Exception, kind: type[Exception]
) -> None:
    with pytest.raises(kind) as caught:
        await events_of(CustomProvider(Fails(error), "mine"))
    assert type(caught.value) is kind


async def test_stream_that_is_not_a_generator_is_rejected() -> None:
    class Coroutine:
        name = "mine"

        async def stream(self, request: ModelRequest) -> str:
            return "hi"

    with pytest.raises(BadReply, match="async generator"):
        await events_of(CustomProvider(Coroutine(), "mine"))  # type: ignore[arg-type]


async def test_custom_provider_is_retried_and_closed() -> None:
    provider = Fails(ConnectionResetError("gone"))
    kore.register_provider("mine", lambda: provider)

    async def no_sleep(seconds: float) -> None: ...

    models = ModelPool("mine/one", sleep=no_sleep)
    events = [event async for event in models.open().provider.stream(ASKED)]
    assert isinstance(events[0], Retry)
    assert isinstance(events[-1], Reply)
    await models.aclose()
    assert provider.closed == 1
