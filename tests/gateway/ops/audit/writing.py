"""Process that writes audit entries until it is killed: `python -m … FOLDER LIMIT_BYTES`."""

import asyncio
import sys
from pathlib import Path

from gateway.ops.audit.log import AuditLog
from tests.gateway.ops.audit.entries import entry


async def main(folder: Path, limit_bytes: int) -> None:
    log = AuditLog(folder, limit_bytes=limit_bytes, keep=3)
    await log.open()
    n = 0
    while True:
        await asyncio.gather(*(log.record(entry(f"{n}-{i}")) for i in range(3)))
        n += 1
        # Report the number only after the entries are acknowledged.
        print(3 * n, flush=True)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2])))
