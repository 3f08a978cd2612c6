import unittest

from tinycsv.sniff import guess_dialect


class SniffTest(unittest.TestCase):
    def test_semicolons(self):
        self.assertEqual(guess_dialect("a;b;c\n1;2;3\n").separator, ";")

    def test_tabs(self):
        self.assertEqual(guess_dialect("a\tb\n").separator, "\t")
