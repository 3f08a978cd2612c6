"""Where the trail ended, kept outside its folder: a trail that is removed as a whole shows, too.

The mark is written after the trail, so that it never names an entry that is not on disk.
A process that may write both can remove both; `kore audit verify --head` with a hash from
elsewhere proves more.
"""

import json
import os
from dataclasses import asdict
from pathlib import Path

from agent.i18n import t
from agent.records import frozen
from agent.serialization import dumps
from gateway.ops.audit.trail import GENESIS, UnreadableTrail

_SIZE_BYTES = 256


@frozen
class AuditCheckpoint:
    """`hash` is that of the newest entry, `count` how many there have ever been. `removed` is how
    many, at least, a start did not find again: 0 as long as nothing was taken away."""

    hash: str = GENESIS
    count: int = 0
    removed: int = 0


def read_checkpoint(path: Path) -> AuditCheckpoint:
    """An empty one when there is none. Raises `UnreadableTrail`."""
    try:
        match json.loads(path.read_bytes()):
            case {"hash": str(digest), "count": int(count), "removed": int(removed)}:
                return AuditCheckpoint(digest, count, removed)
    except FileNotFoundError:
        return AuditCheckpoint()
    except ValueError:
        pass
    raise UnreadableTrail(t("{name} is damaged", name=path.name))


def write_checkpoint(descriptor: int, mark: AuditCheckpoint) -> None:
    """In place and of one size, so that a reader sees the old one or the new one."""
    os.pwrite(descriptor, dumps(asdict(mark)).ljust(_SIZE_BYTES).encode(), 0)
