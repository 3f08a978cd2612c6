import unittest
from datetime import datetime

from cronline import parse


class ScheduleTest(unittest.TestCase):
    def test_office_hours(self):
        schedule = parse("*/15 9-17 * * mon-fri")
        self.assertEqual(
            schedule.next_after(datetime(2024, 3, 1, 17, 50)), datetime(2024, 3, 4, 9, 0)
        )

    def test_seven_is_sunday(self):
        self.assertTrue(parse("0 0 * * 7").matches(datetime(2024, 3, 3)))
