"""The last part of an output that never ends."""


class RingBuffer:
    """Keeps the newest `limit_bytes`; positions count from the beginning of the output."""

    def __init__(self, limit_bytes: int) -> None:
        self.total_bytes = 0
        self._limit = limit_bytes
        self._kept = bytearray()

    def feed(self, data: bytes) -> None:
        self.total_bytes += len(data)
        self._kept += data
        # Half as much again before it is cut: not every byte moves all the others.
        if len(self._kept) > self._limit * 3 // 2:
            del self._kept[: -self._limit]

    def since(self, position: int) -> tuple[bytes, int]:
        """What came behind a position, and how many bytes of it are gone."""
        data = bytes(self._kept[-self._limit :])
        first = self.total_bytes - len(data)
        return data[max(0, position - first) :], max(0, first - position)
