import unittest
from unittest import mock

from tokenbucket import TokenBucket


class BucketTest(unittest.TestCase):
    def setUp(self):
        self.now = 100.0
        patch = mock.patch("time.monotonic", lambda: self.now)
        patch.start()
        self.addCleanup(patch.stop)

    def test_burst(self):
        bucket = TokenBucket(rate=1, burst=3)
        self.assertEqual([bucket.allow() for _ in range(4)], [True, True, True, False])

    def test_fills(self):
        bucket = TokenBucket(rate=2, burst=1)
        self.assertTrue(bucket.allow())
        self.assertEqual(bucket.wait_s(), 0.5)
        self.now += 0.5
        self.assertTrue(bucket.allow())
