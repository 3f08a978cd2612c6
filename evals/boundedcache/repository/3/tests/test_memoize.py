import unittest

from boundedcache import LruCache, memoize


class MemoizeTest(unittest.TestCase):
    def test_calls_once(self):
        calls = []

        @memoize(LruCache(10))
        def double(n):
            calls.append(n)
            return n * 2

        self.assertEqual([double(2), double(2), double(3)], [4, 4, 6])
        self.assertEqual(calls, [2, 3])

    def test_none_is_a_result(self):
        calls = []

        @memoize(LruCache(10))
        def nothing():
            calls.append(1)

        nothing()
        nothing()
        self.assertEqual(len(calls), 1)
