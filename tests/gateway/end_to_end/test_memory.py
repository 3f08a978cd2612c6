"""Memory allocation of the gateway's process."""

from itertools import pairwise
from pathlib import Path

import pytest

from gateway.runtime.libc import function
from tests.gateway.end_to_end.gateway_process import GatewayProcess

# Size and alignment that glibc reserves for each further arena on 64-bit systems.
_ARENA_BYTES = 64 * 2**20


@pytest.mark.skipif(function("mallopt") is None, reason="the C library is not glibc")
async def test_all_threads_share_one_arena(alone: GatewayProcess) -> None:
    await alone.start()
    await alone.answers_to(7, "hello")
    pid = (await alone.status())["pid"]
    try:
        maps = Path(f"/proc/{pid}/maps").read_text()
    except PermissionError:
        pytest.skip("the gateway's process is closed to all but root")
    assert _arenas(maps) == 0, "beside the first"


def _arenas(maps: str) -> int:
    """Return the number of further arenas.

    Each is a used mapping followed by an unused mapping.
    """
    rows = [line.split(maxsplit=2) for line in maps.splitlines()]
    places = [tuple(int(end, 16) for end in row[0].split("-")) for row in rows]
    return sum(
        begin % _ARENA_BYTES == 0 and middle == other and end - begin == _ARENA_BYTES
        for (begin, middle), (other, end) in pairwise(places)
    )
