import unittest

from tinycsv import write_dicts, write_rows


class WriterTest(unittest.TestCase):
    def test_plain(self):
        self.assertEqual(write_rows([["a", 1], ["b", 2]]), "a,1\nb,2\n")

    def test_quotes(self):
        self.assertEqual(write_rows([["a,b", 'say "hi"']]), '"a,b","say ""hi"""\n')

    def test_dicts(self):
        self.assertEqual(write_dicts([{"a": 1, "b": 2}]), "a,b\n1,2\n")
