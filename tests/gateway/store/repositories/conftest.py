import pytest


@pytest.fixture(autouse=True)
def on_each_engine(engine: str) -> str:
    """Every test of this folder, and every database that it opens."""
    return engine
