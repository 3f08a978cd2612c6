"""A PostgreSQL server of the test run's own, and a new database for each test that asks.

One server for each worker of pytest, begun when it is first needed: on a Unix socket, without
fsync, in memory. `KORE_TEST_STORE=postgres` puts the tests of the gateway on it; those of files
that SQLite writes are `only_sqlite`.
"""

import atexit
import itertools
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from contextlib import closing, suppress
from functools import cache
from pathlib import Path

import pytest

from gateway.store.postgres.connection import connect
from gateway.store.postgres.migrator import upgrade
from gateway.store.postgres.transaction import PostgresTransaction

_USER = "postgres"
# Then the number of the process that it belongs to.
_PREFIX = "kore-pg-"
_TEMPLATE = "kore_template"
_PATIENCE_S = 10.0
_LOOK_S = 0.005
_databases = itertools.count(1)


def engine() -> str:
    """Which engine the tests of the gateway open: sqlite or postgres."""
    return os.environ.get("KORE_TEST_STORE", "sqlite")


only_sqlite = pytest.mark.skipif(engine() != "sqlite", reason="only SQLite has a file")


@cache
def programs() -> Path | None:
    """The folder of initdb and pg_ctl: that of the newest version that is installed."""
    folders = sorted(
        Path("/usr/lib/postgresql").glob("*/bin"), key=lambda one: int(one.parent.name)
    )
    if folders and (folders[-1] / "initdb").exists():
        return folders[-1]
    found = shutil.which("initdb")
    return Path(found).parent if found else None


class PostgresServer:
    """Runs until `close`, in memory or in a folder within `parent`. One that `is_durable` may be
    killed and started again."""

    def __init__(self, *, is_durable: bool = False, parent: Path | None = None) -> None:
        self._is_durable = is_durable
        self.folder = _new_folder(parent)
        if os.getuid() == 0:
            shutil.chown(self.folder, _USER)
        self._run("initdb", "-D", self.data, "-A", "trust", "-U", "kore", "--no-sync", "-E", "UTF8")
        self.start()
        self._sql("postgres", f"CREATE DATABASE {_TEMPLATE}")
        self._make_tables()

    @property
    def data(self) -> Path:
        return self.folder / "data"

    def start(self) -> None:
        # Nothing but the socket in its own folder.
        options = (
            f"-c listen_addresses='' -k {self.folder} -c max_connections=300"
            # Shared memory in the same folder, too, so that a kill leaves nothing elsewhere.
            " -c dynamic_shared_memory_type=mmap"
            " -c shared_buffers=32MB -c autovacuum=off -c max_pred_locks_per_transaction=256"
        )
        if self._is_durable:
            # A kill costs all that nothing has waited for.
            options += " -c wal_writer_delay=10s"
        else:
            options += " -c fsync=off -c full_page_writes=off -c synchronous_commit=off"
        log = self.folder / "log"
        self._run("pg_ctl", "-D", self.data, "-o", options, "-l", log, "-w", "start")

    def stop(self, mode: str = "immediate") -> None:
        self._run("pg_ctl", "-D", self.data, "-m", mode, "-w", "stop")

    def kill(self) -> None:
        """SIGKILL for all its processes; returns when none is left."""
        (first,) = (self.data / "postmaster.pid").read_text().splitlines()[:1]
        _kill(int(first))
        # Where nothing has asked yet how they ended, the next server takes their numbers for alive.
        for lock in (self.data / "postmaster.pid", self.folder / ".s.PGSQL.5432.lock"):
            lock.unlink(missing_ok=True)

    def close(self) -> None:
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def address(self, database: str) -> str:
        return f"postgresql://kore@/{database}?host={self.folder}"

    def create_database(self, template: str = _TEMPLATE) -> str:
        """Create a database with Kore's tables, or those of `template`; return its address."""
        name = f"kore_{next(_databases)}"
        self._sql("postgres", f"CREATE DATABASE {name} TEMPLATE {template}")
        return self.address(name)

    def create_empty_database(self) -> str:
        return self.create_database("template0")

    def _make_tables(self) -> None:
        with closing(connect(self.address(_TEMPLATE))) as connection, connection.transaction():
            upgrade(PostgresTransaction(connection), _TEMPLATE)

    def _sql(self, database: str, sql: str) -> None:
        with closing(connect(self.address(database))) as connection:
            connection.execute(sql.encode())

    def _run(self, program: str, *words: str | Path) -> None:
        if (folder := programs()) is None:
            pytest.skip("PostgreSQL is not installed")
        user = pwd.getpwnam(_USER).pw_uid if os.getuid() == 0 else None
        subprocess.run(
            [folder / program, *words],
            check=True,
            stdout=subprocess.DEVNULL,
            stdin=subprocess.DEVNULL,
            user=user,
            group=pwd.getpwnam(_USER).pw_gid if user is not None else None,
            extra_groups=[] if user is not None else None,
            cwd="/",
        )


@cache
def server() -> PostgresServer:
    """That of this process."""
    one = PostgresServer()
    atexit.register(one.close)
    return one


def create_database() -> str:
    return server().create_database()


@cache
def database_of(path: Path) -> str:
    """The one that stands for the file of SQLite's in `path`; made when it is first asked for."""
    return create_database()


def environ_of(home: Path) -> dict[str, str]:
    """What tells a `kore` of this folder where its data is; nothing for SQLite's file."""
    if engine() == "sqlite":
        return {}
    return {"KORE_STORE_URL": database_of(home / "kore.db")}


def _new_folder(parent: Path | None) -> Path:
    parent = parent or _memory() or Path(tempfile.gettempdir())
    remove_abandoned(parent)
    return Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-", dir=parent))


def remove_abandoned(parent: Path) -> None:
    """End the servers of processes that are gone, as a test run that was killed leaves them, and
    remove their folders."""
    for folder in parent.glob(f"{_PREFIX}*-*"):
        owner = folder.name.removeprefix(_PREFIX).partition("-")[0]
        if not owner.isdecimal() or _is_alive(int(owner)):
            continue
        with suppress(OSError, ValueError):
            first = int((folder / "data" / "postmaster.pid").read_text().splitlines()[0])
            # The number may be another process's by now.
            if str(folder).encode() in Path(f"/proc/{first}/cmdline").read_bytes():
                _kill(first)
        shutil.rmtree(folder, ignore_errors=True)


def _kill(first: int) -> None:
    """The first process of a server and all others; returns when none is left."""
    processes = [first, *_children(first)]
    for process in processes:
        # The others end by themselves when the first has.
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
    deadline = time.monotonic() + _PATIENCE_S
    while any(map(_is_alive, processes)):
        assert time.monotonic() < deadline, "a process of PostgreSQL outlived SIGKILL"
        time.sleep(_LOOK_S)


def _children(process: int) -> list[int]:
    tasks = Path(f"/proc/{process}/task").glob("*/children")
    return [int(child) for file in tasks for child in file.read_text().split()]


def _is_alive(process: int) -> bool:
    """What has ended counts as gone, also before anybody has asked how."""
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


def _memory() -> Path | None:
    memory = Path("/dev/shm")
    return memory if os.access(memory, os.W_OK) else None
