"""PostgreSQL server of the test run, with a new database for each test that requests it.

Each worker of pytest has one server, started on first use: on a Unix socket, without fsync, in
memory. With `KORE_TEST_STORE=postgres` the tests of the gateway use it; tests of files that SQLite
writes are marked `only_sqlite`.
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
# The prefix is followed by the number of the owning process.
_PREFIX = "kore-pg-"
_TEMPLATE = "kore_template"
_TIMEOUT_S = 10.0
_POLL_INTERVAL_S = 0.005
_databases = itertools.count(1)


def engine() -> str:
    """Return the engine for the tests of the gateway: sqlite or postgres."""
    return os.environ.get("KORE_TEST_STORE", "sqlite")


only_sqlite = pytest.mark.skipif(engine() != "sqlite", reason="only SQLite has a file")


@cache
def programs() -> Path | None:
    """Return the folder of initdb and pg_ctl, from the newest installed version."""
    folders = sorted(
        Path("/usr/lib/postgresql").glob("*/bin"), key=lambda item: int(item.parent.name)
    )
    if folders and (folders[-1] / "initdb").exists():
        return folders[-1]
    result = shutil.which("initdb")
    return Path(result).parent if result else None


class PostgresServer:
    """Server that runs until `close`, in memory or in a folder within `parent`.

    A server that `is_durable` may be killed and restarted.
    """

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
        # Listen only on the socket in the server's own folder.
        options = (
            f"-c listen_addresses='' -k {self.folder} -c max_connections=300"
            # Place shared memory in the same folder, too, so that a kill leaves nothing elsewhere.
            " -c dynamic_shared_memory_type=mmap"
            " -c shared_buffers=32MB -c autovacuum=off -c max_pred_locks_per_transaction=256"
        )
        if self._is_durable:
            # A kill loses every commit that did not wait for the disk.
            options += " -c wal_writer_delay=10s"
        else:
            options += " -c fsync=off -c full_page_writes=off -c synchronous_commit=off"
        log = self.folder / "log"
        self._run("pg_ctl", "-D", self.data, "-o", options, "-l", log, "-w", "start")

    def stop(self, mode: str = "immediate") -> None:
        self._run("pg_ctl", "-D", self.data, "-m", mode, "-w", "stop")

    def kill(self) -> None:
        """Send SIGKILL to all processes of the server; return when none is left."""
        (first,) = (self.data / "postmaster.pid").read_text().splitlines()[:1]
        _kill(int(first))
        # Until the processes are reaped, the next server would consider them alive.
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
    """Return this process's server."""
    postgres_server = PostgresServer()
    atexit.register(postgres_server.close)
    return postgres_server


def create_database() -> str:
    return server().create_database()


@cache
def database_of(path: Path) -> str:
    """Return the database that replaces SQLite's file in `path`, created on first use."""
    return create_database()


def environ_of(home: Path) -> dict[str, str]:
    """Return the variables that locate the data of a `kore` in this folder; empty for SQLite."""
    if engine() == "sqlite":
        return {}
    return {"KORE_STORE_URL": database_of(home / "kore.db")}


def _new_folder(parent: Path | None) -> Path:
    parent = parent or _memory() or Path(tempfile.gettempdir())
    remove_abandoned(parent)
    return Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-", dir=parent))


def remove_abandoned(parent: Path) -> None:
    """End the servers left by killed test runs, and remove their folders."""
    for folder in parent.glob(f"{_PREFIX}*-*"):
        owner = folder.name.removeprefix(_PREFIX).partition("-")[0]
        if not owner.isdecimal() or _is_alive(int(owner)):
            continue
        with suppress(OSError, ValueError):
            first = int((folder / "data" / "postmaster.pid").read_text().splitlines()[0])
            # The number may have been reused by another process.
            if str(folder).encode() in Path(f"/proc/{first}/cmdline").read_bytes():
                _kill(first)
        shutil.rmtree(folder, ignore_errors=True)


def _kill(first: int) -> None:
    """Kill the first process of a server and all others; return when none is left."""
    processes = [first, *_children(first)]
    for process in processes:
        # The others exit once the first is gone.
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
    deadline = time.monotonic() + _TIMEOUT_S
    while any(map(_is_alive, processes)):
        assert time.monotonic() < deadline, "a process of PostgreSQL outlived SIGKILL"
        time.sleep(_POLL_INTERVAL_S)


def _children(process: int) -> list[int]:
    tasks = Path(f"/proc/{process}/task").glob("*/children")
    return [int(child) for file in tasks for child in file.read_text().split()]


def _is_alive(process: int) -> bool:
    """Return whether the process is alive; a zombie counts as gone."""
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


def _memory() -> Path | None:
    memory = Path("/dev/shm")
    return memory if os.access(memory, os.W_OK) else None
