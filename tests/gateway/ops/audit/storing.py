"""Worker process that stores audit entries until it is killed: `python -m … ADDRESS`."""

import asyncio
import sys
from typing import cast

from gateway.ops.audit.relay import StoredAuditSink
from gateway.store.port import Store
from tests.gateway.connection_store import ConnectionStore
from tests.gateway.ops.audit.entries import entry


async def main(address: str) -> None:
    database = cast(Store, ConnectionStore(address))
    sink = StoredAuditSink(database, lambda: None, worker="other")
    n = 0
    while True:
        await asyncio.gather(*(sink.record(entry(f"{n}-{i}")) for i in range(3)))
        n += 1
        # Report the number only after the entry is acknowledged.
        print(n, flush=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
