"""PostgreSQL server of the test run."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests import postgres_server
from tests.processes import processes

BEGIN = "import sys\nfrom tests.postgres_server import PostgresServer\n"
BEGIN += "print(PostgresServer().folder, flush=True)\nsys.stdin.read()"


@pytest.mark.skipif(postgres_server.programs() is None, reason="PostgreSQL is not installed")
def test_leftovers_of_a_killed_run_are_removed() -> None:
    words = (sys.executable, "-c", BEGIN)
    with subprocess.Popen(words, stdin=-1, stdout=-1, text=True) as run:
        assert run.stdout is not None
        folder = Path(run.stdout.readline().strip())
        postgres_server.remove_abandoned(folder.parent)
        assert folder.exists()
        assert processes(str(folder))
        run.kill()
    postgres_server.remove_abandoned(folder.parent)
    assert not folder.exists()
    assert not processes(str(folder))
