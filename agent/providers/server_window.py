"""Windows of models as their own servers state them."""

import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from agent.errors import ConfigError
from agent.proxies.outbound import OutboundProxy, open_session
from agent.records import frozen

_TIMEOUT_S = 3.0
_LIMIT_BYTES = 4 << 20


class ModelWindow:
    """Window of a model in tokens.

    `tokens` is the size to plan with, and `is_known` whether something states it. Otherwise `ask`,
    if given, asks the server for the size, which then applies. A server that has not loaded the
    model may not know the size yet, so it is asked again after the first reply.
    """

    def __init__(
        self,
        tokens: int,
        *,
        is_known: bool = True,
        ask: Callable[[], Awaitable[int | None]] | None = None,
    ) -> None:
        self.tokens = tokens
        self.is_known = is_known
        # True if the server has stated the size.
        self.is_stated = False
        self._ask = ask
        self._was_asked = False
        self._has_replied = False

    @property
    def may_be_smaller(self) -> bool:
        """Whether the server may have a smaller window, because nobody has configured the size."""
        return self._ask is not None

    def note_reply(self) -> None:
        """Note that the model has answered; the next `ask` after the first reply asks again."""
        if not self._has_replied:
            self._has_replied, self._was_asked = True, self.is_stated

    async def ask(self, *, again: bool = False) -> None:
        """Ask the server, once before and once after the first reply unless `again`."""
        if self._ask is None or (self._was_asked and not again):
            return
        self._was_asked = True
        if tokens := await self._ask():
            self.tokens, self.is_known, self.is_stated = tokens, True, True


@frozen
class WindowSource:
    """Server of a model: its address with the version, headers and proxy."""

    api_base: str
    model: str
    headers: Mapping[str, str]
    proxy: OutboundProxy | None = None

    async def ollama_tokens(self) -> int | None:
        """Return the longest window of a model from `POST /api/show`.

        https://docs.ollama.com/api-reference/show-model-details
        """
        answer = await self._ask(f"{self.api_base}/api/show", {"model": self.model})
        facts = _object(_object(answer).get("model_info"))
        return next(
            (_count(facts[name]) for name in facts if name.endswith(".context_length")), None
        )

    async def openai_tokens(self) -> int | None:
        """Return the window that a server with OpenAI's API has opened.

        vLLM and others list it with the model, llama.cpp among its properties, and LM Studio in its
        own list. https://github.com/ggml-org/llama.cpp/tree/master/tools/server,
        https://lmstudio.ai/docs/developer/rest/endpoints
        """
        root = self.api_base.removesuffix("/v1")
        models = _object(await self._ask(f"{self.api_base}/models")).get("data")
        if tokens := _count(self._entry(models).get("max_model_len")):
            return tokens
        properties = _object(await self._ask(f"{root}/props"))
        if tokens := _count(_object(properties.get("default_generation_settings")).get("n_ctx")):
            return tokens
        models = _object(await self._ask(f"{root}/api/v0/models")).get("data")
        return _count(self._entry(models).get("loaded_context_length"))

    def _entry(self, models: object) -> Mapping[str, Any]:
        """Return this model's entry in a list of models."""
        entries = list(map(_object, models)) if isinstance(models, list) else []
        return next((entry for entry in entries if entry.get("id") == self.model), {})

    async def _ask(self, url: str, body: object = None) -> object:
        """Return the JSON answer to a GET, or to a POST of the body; None without a valid one."""
        import aiohttp

        timeout = aiohttp.ClientTimeout(total=_TIMEOUT_S)
        try:
            async with (
                open_session(self.proxy, timeout=timeout, headers=self.headers) as session,
                session.request(
                    "GET" if body is None else "POST", url, json=body, allow_redirects=False
                ) as response,
            ):
                if response.status != 200:
                    return None
                return json.loads(await response.content.read(_LIMIT_BYTES))
        except (
            aiohttp.ClientError,
            ConfigError,
            TimeoutError,
            OSError,
            ValueError,
            RecursionError,
        ):
            return None


def _object(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None
