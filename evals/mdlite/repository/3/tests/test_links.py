import unittest

from mdlite import to_html


class LinkTest(unittest.TestCase):
    def test_scripts_stay_text(self):
        self.assertNotIn("<a", to_html("[x](javascript:alert)"))

    def test_relative(self):
        self.assertIn('href="other.html#part"', to_html("[x](other.html#part)"))
