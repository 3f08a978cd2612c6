"""The drill of docs/postgresql.md: a base backup and archived WAL, restored to a point in time."""

import os
import pwd
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from tests import postgres_server
from tests.fakes.bot_api import BotApi
from tests.fakes.model import ModelServer
from tests.fakes.model_script import Call, ReplyScript
from tests.gateway.end_to_end.gateway_process import KEY, OWNER, GatewayProcess
from tests.postgres_server import PostgresServer

pytestmark = [
    pytest.mark.slow,
]


@pytest.fixture
def server() -> Iterator[PostgresServer]:
    result = PostgresServer(is_durable=True)
    yield result
    result.close()


def run(program: str, *words: str | Path) -> None:
    """Run the program as the user of PostgreSQL."""
    folder = postgres_server.programs()
    assert folder is not None
    entry = pwd.getpwnam("postgres") if os.getuid() == 0 else None
    subprocess.run(
        [folder / program, *words],
        check=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        user=entry.pw_uid if entry else None,
        group=entry.pw_gid if entry else None,
        extra_groups=[] if entry else None,
        cwd="/",
    )


def sql(address: str, statement: str) -> str:
    # Connect without Kore's settings, which require a writable server and so exclude recovery.
    with closing(psycopg.connect(address, autocommit=True)) as connection:
        cursor = connection.execute(statement.encode())
        row = cursor.fetchone() if cursor.description else None
        return "" if row is None else str(row[0])


def own_folder(path: Path) -> Path:
    path.mkdir(mode=0o700)
    if os.getuid() == 0:
        shutil.chown(path, "postgres")
    return path


async def test_database_is_restored_to_a_point_in_time(
    server: PostgresServer, tmp_path: Path
) -> None:
    archive = own_folder(server.folder / "archive")
    (server.data / "postgresql.auto.conf").write_text(
        "archive_mode = on\n"
        f"archive_command = 'test ! -f {archive}/%f && cp %p {archive}/%f'\n"
        "wal_level = replica\n"
    )
    server.stop("fast")
    server.start()
    address = server.create_database()
    sections = {
        "store": {"url": address, "lease_s": 2},
        "access": {"owner": f"telegram:{OWNER}", "roles": {"telegram": "build"}},
    }
    (tmp_path / "machine").mkdir()
    async with BotApi() as api, ModelServer(api_key=KEY) as model:
        gateway = GatewayProcess(tmp_path / "machine", api, model, sections)
        try:
            await gateway.start()
            assert await gateway.answers_to(1, "before") == ["echo: before"]
            base = server.folder / "base"
            where = ("-h", server.folder, "-U", "kore", "-D", base)
            run("pg_basebackup", *where, "-X", "none", "-c", "fast")
            assert await gateway.answers_to(1, "kept") == ["echo: before", "echo: kept"]
            # Stop in the middle of a turn whose call has its effect after the restore point.
            effect = Call("append_file", {"path": "effect.txt", "content": "once\n"})
            model.script(ReplyScript(tool_calls=(effect,), waits_at=0), "Done.")
            await api.user_says(7, "do it")
            await gateway.until(lambda: model.waiting)
            moment = sql(address, "SELECT clock_timestamp()::text")
            model.let_go()
            await gateway.idle()
            assert api.answers(7) == ["Done."]
            await gateway.answers_to(1, "gone")
            sql(address, "SELECT pg_switch_wal()::text")
            gateway.signal(signal.SIGKILL)
            await gateway.ended()
            # Shut down cleanly, so that the last WAL segment is archived; then the disk is lost.
            server.stop("fast")
            shutil.rmtree(server.data)

            base.rename(server.data)
            (server.data / "postgresql.auto.conf").write_text(
                f"restore_command = 'cp {archive}/%f %p'\n"
                f"recovery_target_time = '{moment}'\n"
                "recovery_target_action = 'promote'\n"
            )
            (server.data / "recovery.signal").touch()
            server.start()
            await gateway.api.wait_for(
                lambda: sql(address, "SELECT pg_is_in_recovery()::text") == "false"
            )
            marked = await gateway.kore("store", "mark-restored")
            assert marked.code == 0, marked.err
            count = len(model.requests)
            await gateway.start()
            await gateway.idle()
            # The interrupted turn is not resumed, because its effect already exists.
            assert len(model.requests) == count
            assert (gateway.workspace / "effect.txt").read_text() == "once\n"
            assert api.answers(7)[-1].startswith("⚠️ A backup was restored")
            output = await gateway.kore("sessions", "search", "kept")
            assert "kept" in output.out
            assert "gone" not in (await gateway.kore("sessions", "search", "gone")).out
            assert (await gateway.answers_to(1, "after"))[-1] == "echo: after"
            await gateway.stop()
        finally:
            if gateway.runs:
                await gateway.kill()
        gateway.check_clean()
