"""Embeddings by OpenAI's API: requests, responses and errors."""

import math

import pytest

from agent.errors import BadReply, ConfigError, KeyRefused, ProviderError, Unavailable
from agent.providers.embeddings import BATCH, MAX_TEXT_CHARS, EmbeddingClient
from agent.providers.registry import ModelConfig, resolve_model
from tests.fakes.model import ModelServer


def client(
    server: ModelServer, model: str = "openai/embed", key: str = "sk-secret-1"
) -> EmbeddingClient:
    entry = ModelConfig("m", model, api_base=server.base_url, api_key=key)
    return EmbeddingClient(resolve_model("m", [entry], {}))


async def test_embeddings_are_normalized_and_in_order(
    model_server: ModelServer,
) -> None:
    model_server.meaning = lambda text: [float(len(text)), 1.0]
    embedding_client = client(model_server)
    texts = ["x" * (n + 1) for n in range(BATCH + 3)]
    vectors = await embedding_client.embed(texts)
    await embedding_client.aclose()
    assert [len(batch) for batch in model_server.embedded] == [BATCH, 3]
    assert len(vectors) == BATCH + 3
    for text, vector in zip(texts, vectors, strict=True):
        assert math.hypot(*vector) == pytest.approx(1)
        assert vector[0] / vector[1] == pytest.approx(len(text), rel=1e-5)


async def test_long_and_empty_texts_are_adjusted(model_server: ModelServer) -> None:
    embedding_client = client(model_server)
    await embedding_client.embed(["", "y" * (MAX_TEXT_CHARS + 1)])
    await embedding_client.aclose()
    assert model_server.embedded == [[" ", "y" * MAX_TEXT_CHARS]]


async def test_ollama_embeddings_use_the_compatible_api(model_server: ModelServer) -> None:
    entry = ModelConfig("m", "ollama/embed", api_base=model_server.url)
    embedding_client = EmbeddingClient(resolve_model("m", [entry], {}))
    assert len(await embedding_client.embed(["x"])) == 1
    await embedding_client.aclose()


async def test_rejection_quotes_the_vendor_without_the_key(model_server: ModelServer) -> None:
    model_server.api_key = "sk-another"
    embedding_client = client(model_server)
    with pytest.raises(KeyRefused) as refused:
        await embedding_client.embed(["x"])
    await embedding_client.aclose()
    assert "sk-secret-1" not in str(refused.value)


@pytest.mark.parametrize("meaning", [[], [0.0, 0.0], [math.inf], ["x"]])
async def test_invalid_vector_is_rejected(model_server: ModelServer, meaning: list[float]) -> None:
    model_server.meaning = lambda text: meaning
    embedding_client = client(model_server)
    with pytest.raises(BadReply):
        await embedding_client.embed(["x"])
    await embedding_client.aclose()


async def test_vectors_of_different_lengths_are_rejected(model_server: ModelServer) -> None:
    model_server.meaning = lambda text: [1.0] * len(text)
    embedding_client = client(model_server)
    with pytest.raises(BadReply):
        await embedding_client.embed(["x", "yy"])
    await embedding_client.aclose()


async def test_unreachable_server_is_unavailable() -> None:
    async with ModelServer() as gone:
        embedding_client = client(gone)
    with pytest.raises(ProviderError) as failed:
        await embedding_client.embed(["x"])
    await embedding_client.aclose()
    assert isinstance(failed.value, Unavailable)


def test_vendor_without_embeddings_is_rejected() -> None:
    config = resolve_model("anthropic/claude", [], {"ANTHROPIC_API_KEY": "k"})
    with pytest.raises(ConfigError, match="anthropic does not provide embeddings"):
        EmbeddingClient(config)
