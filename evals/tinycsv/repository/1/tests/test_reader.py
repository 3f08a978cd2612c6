import unittest

from tinycsv import read_dicts, read_rows


class ReaderTest(unittest.TestCase):
    def test_plain(self):
        self.assertEqual(read_rows("a,b\n1,2\n"), [["a", "b"], ["1", "2"]])

    def test_quotes(self):
        self.assertEqual(read_rows('"a,b","say ""hi"""'), [["a,b", 'say "hi"']])

    def test_dicts(self):
        self.assertEqual(read_dicts("a,b\n1,2\n"), [{"a": "1", "b": "2"}])


if __name__ == "__main__":
    unittest.main()
