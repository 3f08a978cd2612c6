"""What the store keeps is tested on both engines."""

import pytest

from tests import postgres_server


@pytest.fixture(params=["sqlite", "postgres"])
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The engine that databases are opened with."""
    if request.param == "postgres" and postgres_server.programs() is None:
        pytest.skip("PostgreSQL is not installed")
    monkeypatch.setenv("KORE_TEST_STORE", request.param)
    return str(request.param)
