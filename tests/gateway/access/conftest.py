from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.gateway.store.transactions import OpenTransaction, open_transaction


@pytest.fixture
def tx(tmp_path: Path) -> Iterator[OpenTransaction]:
    with open_transaction(tmp_path / "kore.db") as tx:
        yield tx
