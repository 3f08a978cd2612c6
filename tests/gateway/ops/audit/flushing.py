"""Owner process that flushes the entries of workers: `python -m … FOLDER`."""

import asyncio
import sys
from pathlib import Path

from gateway.ops.audit.log import AuditLog
from gateway.ops.audit.relay import AuditRelay
from tests.gateway.databases import open_database


async def main(folder: Path) -> None:
    database, log = open_database(folder / "kore.db"), AuditLog(folder / "audit")
    await AuditRelay(database, log, folder / "pending").flush()
    await log.close()
    await database.close()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
