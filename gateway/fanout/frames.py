"""Frames of messages.

Small messages are combined, large messages are split, and frames are sealed if the store is. A
frame names its sender and has a number, counted per sender and topic, so that a receiver recognises
repeated and missing frames. Frames of a sender arrive in order. A frame also has its time: a
recorded frame is rejected when it is replayed to a process that started later or has forgotten the
sender.
"""

import os
import struct
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

from gateway.fanout.base import Receive, Topic

SENDER_BYTES = 12
# Kind, sender, number, time in milliseconds.
_HEAD = struct.Struct(f">B{SENDER_BYTES}sQQ")
_PLAIN, _SEALED = 3, 4
# An older frame was recorded, or its sender's clock is wrong; the database has everything as well.
MAX_AGE_S = 60.0
# Tolerated difference between the clocks of two machines; beyond it hints are lost for a while
# after a start.
CLOCK_SKEW_S = 2.0
# Flags for the beginning and the end of a message, and the length.
_PIECE = struct.Struct(">BI")
_FIRST, _LAST = 1, 2
_TAG_BYTES = 16
_NONCE_BYTES = 12
# Longest message; a longer announced length would be an attempt to exhaust the memory.
_MAX_BYTES = 64_000_000
# Limit of remembered senders; the least recently seen one is forgotten.
_MAX_SENDERS = 1_000


class KeySource(Protocol):
    """Cipher of the store."""

    def derived(self, purpose: str) -> bytes:
        """Return a key of 32 bytes for this purpose only."""
        ...


class FrameError(ValueError):
    """Raised for a frame that is malformed, sealed with another key, or not sealed."""


def new_sender() -> bytes:
    return os.urandom(SENDER_BYTES)


class FrameWriter:
    """Writer for one sender and one topic."""

    def __init__(
        self,
        topic: Topic,
        sender: bytes,
        keys: KeySource | None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._sender = sender
        self._number = 0
        self._clock = clock
        self._seal = None if keys is None else _Seal(topic, sender, keys)

    def frames(self, messages: Iterable[bytes], limit_bytes: int) -> Iterator[bytes]:
        """Yield frames of at most `limit_bytes`, each built on demand."""
        room = limit_bytes - _HEAD.size - (_TAG_BYTES if self._seal else 0)
        content = bytearray()
        for message in messages:
            # Do not split a message that fits into one frame: a lost frame then costs fewer
            # messages.
            if content and len(content) + _PIECE.size + len(message) > room:
                yield self._frame(content)
                content = bytearray()
            rest, place = memoryview(message), _FIRST
            while len(rest) > (most := room - _PIECE.size):
                yield self._frame(_PIECE.pack(place, most) + rest[:most])
                rest, place = rest[most:], 0
            content += _PIECE.pack(place | _LAST, len(rest)) + rest
        if content:
            yield self._frame(content)

    def _frame(self, content: bytes | bytearray) -> bytes:
        self._number += 1
        kind = _PLAIN if self._seal is None else _SEALED
        head = _HEAD.pack(kind, self._sender, self._number, int(self._clock() * 1000))
        if self._seal is not None:
            content = self._seal.encrypt(self._number, bytes(content), head)
        return head + content


@dataclass(slots=True)
class _SenderState:
    number: int
    seal: "_Seal | None"
    # Received pieces of an incomplete message.
    partial: bytearray | None = None


class FrameReader:
    """Reader for one topic. `missed` is called when a frame of a sender is missing."""

    def __init__(
        self,
        topic: Topic,
        keys: KeySource | None,
        receive: Receive,
        missed: Callable[[], None],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._topic: Topic = topic
        self._keys = keys
        self._receive = receive
        self._missed = missed
        self._clock = clock
        self._began_at = clock()
        self._senders: OrderedDict[bytes, _SenderState] = OrderedDict()

    def read(self, frame: bytes) -> None:
        """Pass on each message that is completed by the frame. Raises `FrameError`."""
        if len(frame) < _HEAD.size:
            raise FrameError("a frame is too short")
        head = frame[: _HEAD.size]
        kind, sender, number, made_at_ms = _HEAD.unpack(head)
        if kind != (_PLAIN if self._keys is None else _SEALED):
            raise FrameError("a frame is not sealed as those of this Kore are")
        state = self._senders.get(sender)
        if state is not None and number <= state.number:
            # Repeated by a sender that did not know whether the frame had arrived.
            return
        made_at, now = made_at_ms / 1000, self._clock()
        if state is None and made_at < self._began_at - CLOCK_SKEW_S:
            raise FrameError("a frame is from before this process began")
        if made_at < now - MAX_AGE_S or made_at > now + MAX_AGE_S:
            raise FrameError("a frame is not of this time")
        seal = state.seal if state is not None else self._new_seal(sender)
        content = memoryview(frame)[_HEAD.size :]
        if seal is not None:
            content = memoryview(seal.decrypt(number, content, head))
        pieces = list(_pieces(content))
        if state is None:
            state = self._remember(sender, _SenderState(number - 1, seal))
        self._senders.move_to_end(sender)
        is_gap = number > state.number + 1
        state.number = number
        if is_gap:
            state.partial = None
            self._missed()
        for place, piece in pieces:
            self._take(state, place, piece)

    def _take(self, state: _SenderState, place: int, piece: memoryview) -> None:
        if place & _FIRST:
            state.partial = bytearray()
        if state.partial is None:
            # The beginning of this message was lost.
            return
        if len(state.partial) + len(piece) > _MAX_BYTES:
            state.partial = None
            raise FrameError("a message is too long")
        state.partial += piece
        if place & _LAST:
            message, state.partial = bytes(state.partial), None
            self._receive(message)

    def _new_seal(self, sender: bytes) -> "_Seal | None":
        return None if self._keys is None else _Seal(self._topic, sender, self._keys)

    def _remember(self, sender: bytes, state: _SenderState) -> _SenderState:
        self._senders[sender] = state
        if len(self._senders) > _MAX_SENDERS:
            self._senders.popitem(last=False)
        return state


class _Seal:
    """AES-256-GCM with a separate key for each sender and topic.

    The number of a frame is the nonce and therefore never repeats.
    """

    def __init__(self, topic: Topic, sender: bytes, keys: KeySource) -> None:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        self._aead: AESGCM = AESGCM(keys.derived(f"fanout {topic} {sender.hex()}"))

    def encrypt(self, number: int, content: bytes, head: bytes) -> bytes:
        return self._aead.encrypt(number.to_bytes(_NONCE_BYTES, "big"), content, head)

    def decrypt(self, number: int, content: memoryview, head: bytes) -> bytes:
        from cryptography.exceptions import InvalidTag

        try:
            return self._aead.decrypt(number.to_bytes(_NONCE_BYTES, "big"), content, head)
        except (InvalidTag, ValueError):
            raise FrameError("a frame is sealed with another key") from None


def _pieces(content: memoryview) -> Iterator[tuple[int, memoryview]]:
    while content:
        if len(content) < _PIECE.size:
            raise FrameError("a frame ends within a piece")
        place, length = _PIECE.unpack(content[: _PIECE.size])
        end = _PIECE.size + length
        if end > len(content):
            raise FrameError("a frame ends within a piece")
        yield place, content[_PIECE.size : end]
        content = content[end:]
