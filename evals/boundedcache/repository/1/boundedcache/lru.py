"""A cache that forgets what was used least recently."""

from collections import OrderedDict

MISSING = object()


class LruCache:
    def __init__(self, capacity):
        if capacity < 1:
            raise ValueError("capacity must be at least 1")
        self.capacity = capacity
        self._entries = OrderedDict()

    def get(self, key, default=None):
        """The value, or `default`; what was read counts as used."""
        value = self._entries.get(key, MISSING)
        if value is MISSING:
            return default
        self._entries.move_to_end(key)
        return value

    def put(self, key, value):
        """Keep the value; it counts as used."""
        if key not in self._entries and len(self._entries) >= self.capacity:
            self._entries.popitem(last=False)
        self._entries[key] = value

    def discard(self, key):
        self._entries.pop(key, None)

    def __contains__(self, key):
        return key in self._entries

    def __len__(self):
        return len(self._entries)
