"""Database with tables other than Kore's."""

from contextlib import closing
from pathlib import Path

import pytest

from gateway.store.errors import StoreError
from gateway.store.opening import open_store
from gateway.store.postgres.connection import connect
from gateway.store.postgres.whole import WholePostgres
from tests import postgres_server
from tests.gateway.store.postgres.owners import open_now


async def test_extension_in_the_database_is_not_another_program(tmp_path: Path) -> None:
    address = postgres_server.create_database()
    with closing(connect(address)) as server:
        server.execute("CREATE EXTENSION pg_stat_statements")
        server.execute("CREATE TABLE of_extension (id int)")
        server.execute("ALTER EXTENSION pg_stat_statements ADD TABLE of_extension")
        server.execute("CREATE VIEW own_view AS SELECT 1 AS one")
    await open_now(address, tmp_path).close()
    with WholePostgres(address).opened(None) as tx:
        names = set(WholePostgres(address).tables(tx))
    assert "inbox" in names
    assert not names & {"of_extension", "own_view", "pg_stat_statements"}


async def test_foreign_tables_are_left_unchanged(tmp_path: Path) -> None:
    address = postgres_server.create_database()
    with closing(connect(address)) as server:
        server.execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
        server.execute("CREATE TABLE book (id int)")
    with pytest.raises(StoreError, match="tables of another program"):
        open_store(address, tmp_path, check=False, cipher=None)


async def test_schema_may_have_a_name_that_needs_quotes(tmp_path: Path) -> None:
    address = postgres_server.create_database()
    with closing(connect(address)) as server:
        server.execute('CREATE SCHEMA "My-Kore"')
        server.execute(
            "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET search_path = %I',"
            " current_database(), 'My-Kore'); END $$"
        )
    await open_now(address, tmp_path).close()
    with closing(connect(address)) as server:
        results = server.execute(
            "SELECT 1 FROM pg_tables WHERE schemaname = 'My-Kore' AND tablename = 'inbox'"
        ).fetchall()
    assert len(results) == 1
