"""Semantic similarity of texts by a model's embeddings; vectors are cached in the store."""

import asyncio
import hashlib
import time
from array import array
from collections.abc import Callable, Sequence
from operator import mul
from typing import TYPE_CHECKING

from agent.agent import Agent
from agent.providers.pool import ModelPool
from agent.providers.registry import ModelConfig, resolve_model
from gateway.config import Settings
from gateway.store.port import Store
from gateway.store.repositories.conversations import search

if TYPE_CHECKING:
    from agent.providers.embeddings import Vector

# Limit of new embeddings per search; further texts follow in the next search.
MAX_NEW_TEXTS = 512
UNKNOWN = -1.0


def similarity_of(settings: Settings, agent: Agent, database: Store) -> "StoredSimilarity | None":
    """Return the similarity by embeddings if a model is configured.

    Encrypted stores get none, since vectors reveal the content of their texts.
    """
    model = settings.memory.embeddings
    if model is None or settings.store.encryption_key_env is not None:
        return None
    return StoredSimilarity(database, lambda: agent.models, model)


class StoredSimilarity:
    """Cosine similarity of a question and texts.

    `model` is one of the pool's, or vendor/model.
    """

    def __init__(self, database: Store, models: Callable[[], ModelPool], model: str) -> None:
        self._database = database
        self._models = models
        self._model = model

    async def __call__(self, query: str, texts: Sequence[str]) -> list[float]:
        """Return a value from -1 (or not known yet) to 1 for each text.

        Raises `KoreError`.
        """
        models = self._models()
        config = resolve_model(self._model, models.known, models.environ)

        def digest_of(text: str) -> bytes:
            place = f"{config.model}\0{config.api_base}\0"
            return hashlib.sha256((place + text).encode(errors="replace")).digest()

        texts_by_digest = {digest_of(text): text for text in (query, *texts)}
        vectors = await self._database.transact(
            search.load_embeddings, list(texts_by_digest), time.time()
        )
        missing = [digest for digest in texts_by_digest if digest not in vectors][:MAX_NEW_TEXTS]
        if missing:
            fresh = await _embed(config, [texts_by_digest[digest] for digest in missing])
            new = {item: vector.tobytes() for item, vector in zip(missing, fresh, strict=True)}
            await self._database.transact(search.save_embeddings, new, time.time())
            vectors |= new
        digests = list(map(digest_of, texts))
        return await asyncio.to_thread(_cosines, vectors, digest_of(query), digests)


async def _embed(config: ModelConfig, texts: Sequence[str]) -> "list[Vector[float]]":
    from agent.providers.embeddings import EmbeddingClient

    client = EmbeddingClient(config)
    try:
        return await client.embed(texts)
    finally:
        await client.aclose()


def _cosines(vectors: dict[bytes, bytes], query: bytes, digests: Sequence[bytes]) -> list[float]:
    query_vector = array("f", vectors[query])
    return [
        sum(map(mul, query_vector, array("f", vectors[digest]))) if digest in vectors else UNKNOWN
        for digest in digests
    ]
