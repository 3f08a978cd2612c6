import unittest

from cronline.explain import explain


class ExplainTest(unittest.TestCase):
    def test_words(self):
        self.assertEqual(explain("0 9 * * mon"), "minute 0, hour 9, day of week mon")
        self.assertEqual(explain("* * * * *"), "every minute")
