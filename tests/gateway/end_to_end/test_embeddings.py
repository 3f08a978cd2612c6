"""A gateway with an embedding model finds paraphrased statements."""

from tests.fakes.model_script import reply_with_call
from tests.gateway.end_to_end.gateway_process import OWNER, GatewayProcess


async def test_similar_meaning_is_found_in_memory_and_conversations(
    alone: GatewayProcess,
) -> None:
    pets = ("pet", "kitten", "cat")
    alone.model.meaning = lambda text: [0.1, float(any(word in text.lower() for word in pets))]
    alone.configure({"memory": {"embeddings": "stand-in"}})
    memory = alone.workspace / "memory" / "MEMORY.md"
    memory.parent.mkdir(parents=True, exist_ok=True)
    memory.write_text("- 2026-01-01: The kitten is called Momo\n- 2026-01-02: lives in Lisbon\n")
    search = reply_with_call("memory_search", query="which pet is there")
    async with alone:
        await alone.answers_to(OWNER, "My cat eats fish only")
        await alone.answers_to(OWNER, "/new")
        alone.model.script(search, "Momo.")
        await alone.answers_to(OWNER, "What animal do I have?")
        result = str(alone.model.requests[-1].body["messages"][-1]["content"])
        assert "The kitten is called Momo" in result
        assert "My cat eats fish only" in result
        known = {text for batch in alone.model.embedded for text in batch}
        alone.model.embedded.clear()
        alone.model.script(search, "Momo.")
        await alone.answers_to(OWNER, "And again?")
        # Known texts are not embedded a second time, not even the query.
        fresh = {text for batch in alone.model.embedded for text in batch}
        assert fresh
        assert not fresh & known
