"""Fixtures that every part of the suite may use: the stand-in servers."""

import os
import shutil
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from hypothesis import settings

from tests.fakes.bot_api import BotApi
from tests.fakes.model import ModelServer
from tests.fakes.web import WebSite

# Tests read what Kore says; whoever runs them may speak another language.
for name in ("LC_ALL", "LC_MESSAGES", "LANGUAGE"):
    os.environ.pop(name, None)
os.environ["LANG"] = "C.UTF-8"

# A shell lets what it runs in the background ignore Ctrl-C, and so would all that is started here.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Most of the suite's time was waiting for a disk. What a kill leaves is the same in memory; only
# a power failure tells them apart, and no test has one. A container's 64 MB are too few.
_MEMORY = Path("/dev/shm")
if os.access(_MEMORY, os.W_OK) and shutil.disk_usage(_MEMORY).free > 2_000_000_000:
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(_MEMORY))

# A test is right or wrong; how long it took says something about the machine only.
# The same examples in every run; `make fuzz` is where new ones are looked for.
# The same examples each time: more of them are for `make fuzz`, which searches.
settings.register_profile("kore", deadline=None, derandomize=True, max_examples=40)
settings.register_profile("search", deadline=None, print_blob=True, max_examples=500)
settings.load_profile(os.environ.get("KORE_TEST_PROFILE", "kore"))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    names = [name for marker in item.iter_markers("programs") for name in marker.args]
    missing = [name for name in names if shutil.which(name) is None]
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)}")


@pytest.fixture
async def bot_api() -> AsyncIterator[BotApi]:
    """A Telegram Bot API without limits or faults."""
    async with BotApi() as api:
        yield api


@pytest.fixture
async def model_server() -> AsyncIterator[ModelServer]:
    """A model that echoes."""
    async with ModelServer() as server:
        yield server


@pytest.fixture
async def web_site() -> AsyncIterator[WebSite]:
    """A web site without pages."""
    async with WebSite() as site:
        yield site
