"""Splitting, batching and sealing of frames, with lost and repeated frames."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.fanout.frames import (
    MAX_AGE_S,
    SENDER_BYTES,
    FrameError,
    FrameReader,
    FrameWriter,
    KeySource,
    new_sender,
)
from gateway.store.cipher import Cipher

CIPHER = Cipher(b"k" * 32, "KEY")
sizes = st.lists(st.integers(0, 700) | st.sampled_from([0, 1, 58, 59, 60, 3_000]), max_size=25)
limits = st.integers(64, 900)
keys = st.sampled_from([None, CIPHER])


class Reading:
    def __init__(self, key: KeySource | None = None) -> None:
        self.messages: list[bytes] = []
        self.misses = 0
        self.reader = FrameReader("front", key, self.messages.append, self._miss)

    def _miss(self) -> None:
        self.misses += 1


def distinct_messages(sizes: list[int]) -> list[bytes]:
    """Return messages that differ from each other, except for very short ones."""
    return [(f"{n}:".encode() * size)[:size] for n, size in enumerate(sizes)]


@given(sizes, limits, keys)
def test_frames_survive_round_trip(sizes: list[int], limit: int, key: KeySource | None) -> None:
    messages = distinct_messages(sizes)
    frames = list(FrameWriter("front", new_sender(), key).frames(messages, limit))
    assert all(len(frame) <= limit for frame in frames)
    reading = Reading(key)
    for frame in frames:
        reading.reader.read(frame)
        # Repeat a frame, as after a connection lost before the confirmation.
        reading.reader.read(frame)
    assert reading.messages == messages
    assert reading.misses == 0


@given(sizes, limits, keys, st.data())
def test_lost_frame_loses_only_its_messages(
    sizes: list[int], limit: int, key: KeySource | None, data: st.DataObject
) -> None:
    messages = distinct_messages(sizes)
    frames = list(FrameWriter("front", new_sender(), key).frames(messages, limit))
    if len(frames) < 3:
        return
    lost = data.draw(st.integers(1, len(frames) - 2))
    whole, reading = Reading(key), Reading(key)
    ends = []
    for n, frame in enumerate(frames):
        whole.reader.read(frame)
        ends += [n] * (len(whole.messages) - len(ends))
        if n != lost:
            reading.reader.read(frame)
    begins = [0, *ends]
    untouched = [
        message
        for message, begin, end in zip(messages, begins, ends, strict=False)
        if not begin <= lost <= end
    ]
    touched = len(messages) - len(untouched)
    assert reading.misses == 1
    assert len(messages) - touched <= len(reading.messages) < len(messages)
    assert is_within(untouched, reading.messages)
    assert is_within(reading.messages, messages)


def is_within(some: list[bytes], all_: list[bytes]) -> bool:
    """Return whether `some` is a subsequence of `all_`."""
    rest = iter(all_)
    return all(item in rest for item in some)


@given(st.binary(max_size=200), keys)
def test_invalid_frame_is_rejected(data: bytes, key: KeySource | None) -> None:
    reading = Reading(key)
    if key is not None:
        with pytest.raises(FrameError):
            reading.reader.read(data)
    else:
        # The data may contain a frame by chance, but its messages cannot exceed its size.
        with suppress(FrameError):
            reading.reader.read(data)
    assert sum(map(len, reading.messages)) <= len(data)
    assert key is None or reading.messages == []


@given(st.integers(0, 200), st.integers(1, 255))
def test_changed_sealed_frame_does_not_open(place: int, change: int) -> None:
    (frame,) = FrameWriter("front", new_sender(), CIPHER).frames([b"m" * 160], 1_000)
    changed = bytearray(frame)
    changed[place % len(frame)] ^= change
    reading = Reading(CIPHER)
    with pytest.raises(FrameError):
        reading.reader.read(bytes(changed))
    # The invalid frame has not spoiled the valid one.
    reading.reader.read(frame)
    assert reading.messages == [b"m" * 160]


def test_frame_of_another_topic_does_not_open() -> None:
    (frame,) = FrameWriter("workers", new_sender(), CIPHER).frames([b"m"], 1_000)
    with pytest.raises(FrameError, match="another key"):
        Reading(CIPHER).reader.read(frame)


def test_late_reader_gets_the_next_message() -> None:
    _, *frames = FrameWriter("front", new_sender(), None).frames([b"a" * 200, b"b"], 100)
    reading = Reading()
    for frame in frames:
        reading.reader.read(frame)
    assert (reading.messages, reading.misses) == ([b"b"], 0)


def test_senders_are_independent() -> None:
    both = [
        list(FrameWriter("front", new_sender(), None).frames([name * 500], 100))
        for name in (b"a", b"b")
    ]
    reading = Reading()
    for pair in zip(*both, strict=True):
        for frame in pair:
            reading.reader.read(frame)
    assert reading.messages == [b"a" * 500, b"b" * 500]


@pytest.mark.parametrize("key", [None, CIPHER])
def test_recorded_frame_is_rejected_by_a_later_process(
    key: KeySource | None,
) -> None:
    now = 1_000.0
    (frame,) = FrameWriter("front", new_sender(), key, lambda: now).frames([b"stop"], 1_000)
    messages: list[bytes] = []

    def new_reader() -> FrameReader:
        return FrameReader("front", key, messages.append, lambda: None, lambda: now)

    earlier = new_reader()
    now += 10
    with pytest.raises(FrameError, match="before this process began"):
        new_reader().read(frame)
    earlier.read(frame)
    assert messages == [b"stop"]


def test_frame_of_a_forgotten_sender_is_rejected() -> None:
    now = 1_000.0
    messages: list[bytes] = []
    reader = FrameReader("front", CIPHER, messages.append, lambda: None, lambda: now)
    (frame,) = FrameWriter("front", new_sender(), CIPHER, lambda: now).frames([b"stop"], 1_000)
    for later in (MAX_AGE_S + 1, -MAX_AGE_S - 1):
        now = 1_000.0 + later
        with pytest.raises(FrameError, match="not of this time"):
            reader.read(frame)
    assert messages == []


def test_time_of_a_sealed_frame_cannot_be_changed() -> None:
    (frame,) = FrameWriter("front", new_sender(), CIPHER, lambda: 1_000.0).frames([b"stop"], 1_000)
    head = 1 + SENDER_BYTES + 8
    newer = frame[:head] + (1_010_000).to_bytes(8, "big") + frame[head + 8 :]
    reader = FrameReader("front", CIPHER, lambda _: None, lambda: None, lambda: 1_010.0)
    with pytest.raises(FrameError, match="another key"):
        reader.read(newer)
