from hypothesis import given
from hypothesis import strategies as st

from agent.tools.shell.background_process import RingBuffer


@given(st.lists(st.binary(max_size=30)), st.integers(1, 20), st.integers(0, 100))
def test_newest_bytes_are_retained_and_lost_bytes_counted(
    pieces: list[bytes], limit: int, position: int
) -> None:
    ring = RingBuffer(limit)
    for piece in pieces:
        ring.feed(piece)
    whole = b"".join(pieces)
    position = min(position, len(whole))
    result, lost = ring.since(position)
    assert ring.total_bytes == len(whole)
    assert result == whole[position + lost :]
    assert lost == max(0, len(whole) - limit - position)
