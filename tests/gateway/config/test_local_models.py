"""Search for model servers on this machine, as the settings allow it."""

from gateway.config import Settings
from gateway.config.model_entries import local_models
from gateway.config.sections import AgentSection
from tests.fakes.model import ModelServer


async def test_search_for_local_models_can_be_turned_off(model_server: ModelServer) -> None:
    usual = (("vllm", int(model_server.url.rpartition(":")[2])),)
    assert await local_models(Settings(), usual) == ["vllm/fake"]
    off = Settings().model_copy(update={"agent": AgentSection(find_local_models=False)})
    assert await local_models(off, usual) == []
