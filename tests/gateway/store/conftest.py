"""Fixtures that run tests of the store on both engines."""

import pytest


@pytest.fixture(params=["sqlite", "postgres"])
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Select the engine that opens databases."""
    monkeypatch.setenv("KORE_TEST_STORE", request.param)
    return str(request.param)
