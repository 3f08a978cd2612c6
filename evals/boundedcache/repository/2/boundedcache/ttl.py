"""A cache whose entries grow old."""

import time
from collections import OrderedDict

MISSING = object()


class TtlCache:
    def __init__(self, capacity, seconds, clock=time.monotonic):
        if capacity < 1:
            raise ValueError("capacity must be at least 1")
        if seconds <= 0:
            raise ValueError("seconds must be positive")
        self.capacity = capacity
        self.seconds = seconds
        self._clock = clock
        self._entries = OrderedDict()

    def get(self, key, default=None):
        """The value, or `default` when it is not there or too old."""
        entry = self._entries.get(key, MISSING)
        if entry is MISSING:
            return default
        value, expires = entry
        if self._clock() >= expires:
            del self._entries[key]
            return default
        self._entries.move_to_end(key)
        return value

    def put(self, key, value):
        if key not in self._entries and len(self._entries) >= self.capacity:
            self._entries.popitem(last=False)
        self._entries[key] = (value, self._clock() + self.seconds)

    def discard(self, key):
        self._entries.pop(key, None)

    def __contains__(self, key):
        return key in self._entries

    def __len__(self):
        return len(self._entries)
