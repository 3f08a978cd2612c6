"""Messages to people while a vendor's rate limit lasts."""

from tests.fakes.model_script import rate_limited
from tests.gateway.end_to_end.gateway_process import OWNER, GatewayProcess


async def test_rate_limit_is_reported_and_the_key_cools_down(alone: GatewayProcess) -> None:
    async with alone:
        alone.model.script(rate_limited("3600"))
        (answer,) = await alone.answers_to(OWNER, "hi")
        assert answer.startswith("⚠️ I could not answer: ")
        assert "(for 60 minutes; retry in 5 minutes) (rate-limited)" in answer
        assert "/model" in answer
        assert "(rate-limited)" in (await alone.answers_to(OWNER, "next"))[-1]
        assert len(alone.model.requests) == 1
        # The account has been topped up: choosing the model again sends a request at once.
        await alone.answers_to(OWNER, "/model stand-in")
        assert (await alone.answers_to(OWNER, "now?"))[-1] == "echo: now?"
