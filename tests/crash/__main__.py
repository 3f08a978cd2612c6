"""`python -m tests.crash --kills 1000 --messages 5000`: the long crash test, with a report."""

import argparse
import asyncio
import sys
import tempfile
import time
from pathlib import Path

from tests.crash.loop import CrashLoop, Order
from tests.postgres_server import engine


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument("--messages", type=int, default=5000)
    parser.add_argument("--chats", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--store", choices=("sqlite", "postgres"), default=engine())
    options = parser.parse_args()
    order = Order(options.kills, options.messages, options.chats, options.seed, options.store)
    folder = Path(tempfile.mkdtemp(prefix="kore-crash-"))
    began = time.monotonic()
    account = asyncio.run(CrashLoop(order, folder).run())
    print(account.report())
    print(f"seed {options.seed}, {time.monotonic() - began:.0f} s, files in {folder}")
    return 0 if account.is_clean else 1


if __name__ == "__main__":
    sys.exit(main())
