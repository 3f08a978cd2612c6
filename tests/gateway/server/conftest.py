import inspect
from collections.abc import AsyncIterator, Sequence

import pytest
import pytest_asyncio


def pytest_collection_modifyitems(items: Sequence[pytest.Item]) -> None:
    """Who shares a browser shares its event loop."""
    for item in items:
        if not isinstance(item, pytest.Function) or "chromium" not in item.fixturenames:
            continue
        if inspect.iscoroutinefunction(item.function):
            item.add_marker(pytest.mark.asyncio(loop_scope="session"), append=False)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def chromium() -> AsyncIterator[None]:
    """One browser for all tests of this worker that need one."""
    # Without playwright this module's tests are skipped, and no other's.
    from tests.gateway.server.browser import sharing_browser

    async with sharing_browser():
        yield
