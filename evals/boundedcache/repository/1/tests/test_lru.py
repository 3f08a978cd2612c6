import unittest

from boundedcache import LruCache


class LruTest(unittest.TestCase):
    def test_forgets_the_oldest(self):
        cache = LruCache(2)
        cache.put("a", 1)
        cache.put("b", 2)
        cache.put("c", 3)
        self.assertNotIn("a", cache)
        self.assertEqual(cache.get("b"), 2)

    def test_reading_counts_as_use(self):
        cache = LruCache(2)
        cache.put("a", 1)
        cache.put("b", 2)
        cache.get("a")
        cache.put("c", 3)
        self.assertIn("a", cache)
        self.assertNotIn("b", cache)

    def test_capacity(self):
        with self.assertRaises(ValueError):
            LruCache(0)
