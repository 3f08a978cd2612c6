import unittest

from cronline.fields import FIELDS
from cronline.parse import CronError, parse, parse_field


class ParseTest(unittest.TestCase):
    def test_lists_ranges_words(self):
        self.assertEqual(parse_field("1,3-5", FIELDS[0]), {1, 3, 4, 5})
        self.assertEqual(parse_field("mon-wed", FIELDS[4]), {1, 2, 3})
        self.assertEqual(parse_field("*/20", FIELDS[0]), {0, 20, 40})

    def test_errors(self):
        for line in ("* * * *", "60 * * * *", "* * 0 * *", "x * * * *"):
            with self.assertRaises(CronError):
                parse(line)
