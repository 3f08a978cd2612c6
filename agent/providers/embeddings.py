"""Client for embeddings APIs compatible with OpenAI's.

https://platform.openai.com/docs/api-reference/embeddings
"""

import asyncio
import json
import math
from array import array
from collections.abc import Sequence

from agent.errors import BadReply, ConfigError, TimedOut, Unavailable
from agent.i18n import t
from agent.providers.http.error_mapping import error_from_response
from agent.providers.http.transport import AiohttpTransport, Deadlines, Endpoint
from agent.providers.opening import proxy_of
from agent.providers.registry import ModelConfig
from agent.providers.vendors import find_vendor

# Texts per request, and characters used of each text; servers have their own limits.
BATCH = 64
MAX_TEXT_CHARS = 6_000
_REPLY_LIMIT_BYTES = 32 * 2**20

Vector = array  # floats ("f"), unit length


class EmbeddingClient:
    """Client for one embedding model.

    `config` must be resolved. Raises `ConfigError` for a vendor without embeddings.
    """

    def __init__(self, config: ModelConfig, *, deadline_s: float = 30.0) -> None:
        vendor = find_vendor(config.vendor)
        if vendor is None or vendor.protocol == "anthropic":
            raise ConfigError(t("{vendor} does not provide embeddings", vendor=config.vendor))
        self._endpoint = Endpoint(
            vendor.name,
            config.api_base or vendor.api_base,
            config.api_key or "",
            next(iter(vendor.key_variables), None),
            # The address is Ollama's native interface; embeddings use the compatible one.
            "/v1/embeddings" if vendor.protocol == "ollama" else "/embeddings",
            extra_headers=config.headers,
            key_source=next(iter(config.key_sources), ""),
            proxy=proxy_of(config),
        )
        self._model = config.model_id
        self._deadline_s = deadline_s
        self._transport = AiohttpTransport(self._endpoint, Deadlines())

    async def embed(self, texts: Sequence[str]) -> list["Vector[float]"]:
        """Return a vector for each text. Raises `ProviderError`."""
        vectors: list[Vector[float]] = []
        for begin in range(0, len(texts), BATCH):
            batch = [text[:MAX_TEXT_CHARS] or " " for text in texts[begin : begin + BATCH]]
            vectors += self._read(await self._ask(batch), len(batch))
        return vectors

    async def aclose(self) -> None:
        await self._transport.aclose()

    async def _ask(self, batch: Sequence[str]) -> bytes:
        body = json.dumps({"model": self._model, "input": batch}).encode()
        try:
            async with (
                asyncio.timeout(self._deadline_s),
                self._transport.post(body) as response,
            ):
                reply = bytearray()
                async for chunk in response.chunks:
                    reply += chunk
                    if len(reply) > _REPLY_LIMIT_BYTES:
                        raise self._odd()
        except TimeoutError:
            raise TimedOut(
                t("{vendor} timed out while creating embeddings", vendor=self._endpoint.vendor)
            ) from None
        except OSError as exc:
            raise Unavailable(
                t("{vendor} could not be reached", vendor=self._endpoint.vendor)
            ) from exc
        if response.status != 200:
            raise error_from_response(
                self._endpoint, self._model, response.status, response.headers, bytes(reply)
            )
        return bytes(reply)

    def _read(self, reply: bytes, count: int) -> list["Vector[float]"]:
        try:
            entries = sorted(json.loads(reply)["data"], key=lambda item: int(item["index"]))
            vectors = [_unit(array("f", entry["embedding"])) for entry in entries]
        except (ValueError, KeyError, TypeError, OverflowError):
            raise self._odd() from None
        if len(vectors) != count or len({len(vector) for vector in vectors}) != 1:
            raise self._odd()
        return vectors

    def _odd(self) -> BadReply:
        return BadReply(
            t("{vendor} returned something other than embeddings", vendor=self._endpoint.vendor)
        )


def _unit(vector: "Vector[float]") -> "Vector[float]":
    length = math.sqrt(math.fsum(number * number for number in vector))
    if not 0 < length < math.inf:
        raise ValueError(length)
    return array("f", (number / length for number in vector))
