"""Fixtures with a front and two workers, shared by a module or separate for a destructive test."""

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
    """Return a private chat that no other test has used; its person has the same id."""
    return next(_chats)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> AsyncIterator[WorkerGroup]:
    """Run a group with the `SECTIONS` of the module as configuration."""
    sections = getattr(request.module, "SECTIONS", None)
    async with (
        BotApi() as api,
        ModelServer(api_key=KEY) as model,
        WorkerGroup(tmp_path_factory.mktemp("kore"), api, model, sections) as group,
    ):
        yield group


@pytest_asyncio.fixture(loop_scope="module")
async def group(shared: WorkerGroup) -> AsyncIterator[WorkerGroup]:
    """Yield the module's running group, without faults and scripts of the previous test."""
    shared.model.requests.clear()
    yield shared
    shared.api.heal()
    shared.model.let_go()
    shared.model.forget_script()
    shared.model.mind = echo
    shared.model.latency_s = 0.0
