"""Three short messages in a row get a single answer by default."""

from tests.gateway.end_to_end.gateway_process import OWNER, GatewayProcess


async def test_burst_gets_one_answer(alone: GatewayProcess) -> None:
    alone.configure({"telegram": {"queue": "join"}})
    alone.model.latency_s = 1.0
    async with alone:
        for text in ("can you", "tell me", "what this is"):
            await alone.api.user_says(OWNER, text)
            await alone.until(lambda: alone.model.requests)
        await alone.idle()
        assert len(alone.api.answers(OWNER)) == 1
        contents = [
            m["content"] for m in alone.model.requests[-1].body["messages"] if m["role"] == "user"
        ]
        assert all(text in str(contents) for text in ("can you", "tell me", "what this is"))
