"""Shared fixtures of the suite: the fake servers."""

import gc
import os
import shutil
import signal
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from types import FrameType

import pytest
from hypothesis import settings

from tests.fakes.bot_api import BotApi
from tests.fakes.model import ModelServer
from tests.fakes.web import WebSite

# Tests compare Kore's English output; the user's locale may be another.
for name in ("LC_ALL", "LC_MESSAGES", "LANGUAGE"):
    os.environ.pop(name, None)
os.environ["LANG"] = "C.UTF-8"


def _interrupt(number: int, frame: FrameType | None) -> None:
    """Raise `KeyboardInterrupt`, like Python's own handler."""
    signal.default_int_handler(number, frame)


# With Python's own handler, asyncio would install another one for each test and fixture, and the
# signal module would format its task with the result: tens of milliseconds for a whole app. Also, a
# shell makes background jobs ignore Ctrl-C, and child processes would inherit this.
signal.signal(signal.SIGINT, _interrupt)

# Without this, waiting for a disk takes most of the suite's time. After a kill, memory has the same
# content; only a power failure makes a difference, and no test has one. A container's 64 MB are not
# enough.
_MEMORY = Path("/dev/shm")
if os.access(_MEMORY, os.W_OK) and shutil.disk_usage(_MEMORY).free > 2_000_000_000:
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(_MEMORY))

# Without deadlines, because durations depend on the machine. All runs use the same examples; `make
# fuzz` searches for new ones.
settings.register_profile("kore", deadline=None, derandomize=True, max_examples=40)
settings.register_profile("search", deadline=None, print_blob=True, max_examples=500)
settings.load_profile(os.environ.get("KORE_TEST_PROFILE", "kore"))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Collect without garbage collection, and exclude all test items from later collections."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    names = [name for marker in item.iter_markers("programs") for name in marker.args]
    missing = [name for name in names if shutil.which(name) is None]
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)}")


@pytest.fixture
async def bot_api() -> AsyncIterator[BotApi]:
    """Yield a Telegram Bot API without limits or faults."""
    async with BotApi() as api:
        yield api


@pytest.fixture
async def model_server() -> AsyncIterator[ModelServer]:
    """Yield a model that echoes."""
    async with ModelServer() as server:
        yield server


@pytest.fixture
async def web_site() -> AsyncIterator[WebSite]:
    """Yield a web site without pages."""
    async with WebSite() as site:
        yield site
