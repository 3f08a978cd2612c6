"""`python -m tests.fuzz --seconds 600 [TARGET ...]`: fuzz until time is over or a target crashes.

`--replay FILE` runs the input saved by a crash. No network is needed.
"""

import argparse
import os
import random
import sys
import tempfile
from pathlib import Path

from tests.fuzz.run import fuzz, replay
from tests.fuzz.targets import TARGETS


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=", ".join(TARGETS))
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--crashes", type=Path, default=Path(".fuzz"), help="where inputs go")
    parser.add_argument("--replay", type=Path)
    options = parser.parse_args()
    if unknown := [name for name in options.targets if name not in TARGETS]:
        parser.error(f"no target {unknown[0]!r}; there are {', '.join(TARGETS)}")
    if options.replay:
        replay(options.replay)
        print("no crash")
        return 0
    seed = random.randrange(2**32) if options.seed is None else options.seed
    names = options.targets or list(TARGETS)
    for name in names:
        with tempfile.TemporaryDirectory(prefix="kore-fuzz-", dir=_memory()) as scratch:
            outcome = fuzz(TARGETS[name], options.seconds / len(names), seed, Path(scratch))
        print(f"{outcome.report()}; seed {seed}", flush=True)
        if outcome.crash:
            print(f"Input that does it: {outcome.crash.keep(options.crashes)}")
            return 1
    return 0


def _memory() -> str | None:
    """Return a folder in memory, if there is one."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


if __name__ == "__main__":
    sys.exit(main())
