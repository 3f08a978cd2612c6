"""What the store keeps is tested on both engines."""

import pytest


@pytest.fixture(params=["sqlite", "postgres"])
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The engine that databases are opened with."""
    monkeypatch.setenv("KORE_TEST_STORE", request.param)
    return str(request.param)
