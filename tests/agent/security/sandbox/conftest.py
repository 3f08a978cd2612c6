"""Fixtures with folders for escape attempts, as root and as an ordinary user."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.ordinary_user import shared_place


@pytest.fixture(scope="module")
def place() -> Iterator[Path]:
    with shared_place() as folder:
        yield folder
