import pytest


@pytest.fixture(autouse=True)
def on_each_engine(engine: str) -> str:
    """Run every test and database of this folder on each engine."""
    return engine
