import unittest

from tokenbucket import Limits, SlidingWindow


class LimitsTest(unittest.TestCase):
    def test_keys_are_apart(self):
        limits = Limits(lambda: SlidingWindow(1, 60))
        self.assertEqual([limits.allow(k) for k in "aab"], [True, False, True])
        self.assertEqual(len(limits), 2)
