import unittest

from boundedcache import TtlCache


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


class TtlTest(unittest.TestCase):
    def test_grows_old(self):
        clock = Clock()
        cache = TtlCache(2, 10, clock)
        cache.put("a", 1)
        clock.now = 9.9
        self.assertEqual(cache.get("a"), 1)
        clock.now = 10
        self.assertIsNone(cache.get("a"))

    def test_forgets_the_oldest(self):
        cache = TtlCache(1, 10)
        cache.put("a", 1)
        cache.put("b", 2)
        self.assertIsNone(cache.get("a"))
