"""Checkpoint of the audit log outside its folder, which reveals the removal of the whole log.

The checkpoint is written after the log, so that it never names an entry that is not on disk. A
process that may write both can remove both; `kore audit verify --head` with a hash stored elsewhere
proves more.
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
    """Newest entry of the log.

    `hash` is that of the newest entry, `count` the number of entries ever written. `removed` is the
    minimum number of entries that a start did not find again; 0 means that nothing was removed.
    """

    hash: str = GENESIS
    count: int = 0
    removed: int = 0


def read_checkpoint(path: Path) -> AuditCheckpoint:
    """Return the checkpoint, or an empty one if the file is missing. Raises `UnreadableTrail`."""
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
    """Write the checkpoint in place, with a fixed size: readers see the old or the new one."""
    os.pwrite(descriptor, dumps(asdict(mark)).ljust(_SIZE_BYTES).encode(), 0)
