"""Gateways to test: shared by a module, or separate for a test that kills or breaks it."""

from collections.abc import AsyncIterator, Generator
from itertools import count
from pathlib import Path

import pytest
import pytest_asyncio

from tests.fakes.bot_api import BotApi
from tests.fakes.model import ModelServer
from tests.fakes.model_mind import echo
from tests.gateway.end_to_end.gateway_process import KEY, GatewayProcess

_chats = count(1001)
_FAILED = pytest.StashKey[bool]()


@pytest.fixture
def chat() -> int:
    """Return a private chat that no other test has used; its person has the same id."""
    return next(_chats)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[GatewayProcess]:
    async with (
        BotApi() as api,
        ModelServer(api_key=KEY) as model,
        GatewayProcess(tmp_path_factory.mktemp("kore"), api, model) as gateway,
    ):
        yield gateway


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Record whether the test has failed, for its fixtures."""
    report = yield
    item.stash[_FAILED] = item.stash.get(_FAILED, False) or report.failed
    return report


@pytest_asyncio.fixture(loop_scope="module")
async def gateway(
    shared: GatewayProcess, request: pytest.FixtureRequest
) -> AsyncIterator[GatewayProcess]:
    """Return the module's running gateway, without the faults and scripts of the previous test.

    A failed test may leave it busy or dead, so it is then restarted.
    """
    shared.model.requests.clear()
    yield shared
    shared.api.heal()
    shared.model.forget_script()
    shared.model.mind = echo
    shared.model.latency_s = 0.0
    if request.node.stash.get(_FAILED, False):
        if shared.runs:
            await shared.kill()
        await shared.start()
    shared.check_clean()


@pytest.fixture
async def alone(
    tmp_path: Path, bot_api: BotApi, model_server: ModelServer
) -> AsyncIterator[GatewayProcess]:
    """Return a gateway for a single test, not started yet; afterwards it is killed if it runs."""
    process = GatewayProcess(tmp_path, bot_api, model_server)
    yield process
    if process.runs:
        await process.kill()
    process.check_clean()
