"""Store of a worker: the same tables as the owner's, fenced by its own row."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agent.serialization import dumps
from gateway.core.addresses import own_name, public_address
from gateway.store.cipher import Cipher
from gateway.store.postgres import commit_mark, worker_table
from gateway.store.postgres.connection import first_connection
from gateway.store.postgres.engine import PostgresOptions, PostgresStore, WriteCopy
from gateway.store.postgres.errors import run_alone
from gateway.store.postgres.migrator import require_current, table_names
from gateway.store.postgres.transaction import PostgresTransaction
from gateway.store.sealing import check_key


class PostgresWorkerStore(PostgresStore):
    """Implements `gateway.store.port.WorkerStore`; created by `join`."""

    worker: int
    name: str
    place: str

    @classmethod
    def join(
        cls,
        address: str,
        folder: Path,
        *,
        write_copy: WriteCopy,
        cipher: Cipher | None = None,
        options: PostgresOptions | None = None,
    ) -> "PostgresWorkerStore":
        """Join the owner of the data as a worker.

        Raises `StoreError`, also while the tables belong to another version.
        """
        options = options or PostgresOptions()
        place, name = public_address(address), own_name()
        with first_connection(address) as connection:
            tx = PostgresTransaction(connection)

            def begin() -> int:
                require_current(tx, place)
                check_key(tx, place, cipher, table_names(tx))
                number = worker_table.add(connection, name)
                slot = worker_table.first_slot(number)
                commit_mark.add_rows(connection, slot, options.connections)
                return number

            number = run_alone(connection, begin)
        store = cls(
            *(address, folder, worker_table.fence(number), connection),
            first_slot=worker_table.first_slot(number),
            cipher=cipher,
            options=options,
            write_copy=write_copy,
        )
        store.worker, store.name, store.place = number, name, place
        return store

    def say(self, state: Mapping[str, Any]) -> None:
        self.lease.state = dumps(dict(state))

    async def leave(self) -> None:
        await self.transact(worker_table.end, self.worker)
