"""A front and two workers: one group for a whole module, or one for a test that breaks it."""

from collections.abc import AsyncIterator
from itertools import count

import pytest
import pytest_asyncio

from tests.fakes.bot_api import BotApi
from tests.fakes.model import ModelServer
from tests.fakes.model_mind import echo
from tests.gateway.end_to_end.gateway_process import KEY
from tests.gateway.workers.worker_group import WorkerGroup

_chats = count(2001)


@pytest.fixture
def chat() -> int:
    """A private chat that no other test has used; its person has the same id."""
    return next(_chats)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> AsyncIterator[WorkerGroup]:
    """With the `SECTIONS` of the module's configuration."""
    sections = getattr(request.module, "SECTIONS", None)
    async with (
        BotApi() as api,
        ModelServer(api_key=KEY) as model,
        WorkerGroup(tmp_path_factory.mktemp("kore"), api, model, sections) as group,
    ):
        yield group


@pytest_asyncio.fixture(loop_scope="module")
async def group(shared: WorkerGroup) -> AsyncIterator[WorkerGroup]:
    """The module's group, running; without the faults and scripts of the test before."""
    shared.model.requests.clear()
    yield shared
    shared.api.heal()
    shared.model.let_go()
    shared.model.forget_script()
    shared.model.mind = echo
    shared.model.latency_s = 0.0
