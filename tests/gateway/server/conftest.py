import inspect
from collections.abc import AsyncIterator, Sequence

import pytest
import pytest_asyncio


def pytest_collection_modifyitems(items: Sequence[pytest.Item]) -> None:
    """Run all tests that share a browser on one event loop."""
    for item in items:
        if not isinstance(item, pytest.Function) or "chromium" not in item.fixturenames:
            continue
        if inspect.iscoroutinefunction(item.function):
            item.add_marker(pytest.mark.asyncio(loop_scope="session"), append=False)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def chromium() -> AsyncIterator[None]:
    """Run one browser for all tests of this worker that need it."""
    # Import here, so that without playwright only the tests that need it are skipped.
    from tests.gateway.server.browser import sharing_browser

    async with sharing_browser():
        yield
