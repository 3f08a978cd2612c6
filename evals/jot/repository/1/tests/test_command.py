from tests.helper import JotCase


class CommandTest(JotCase):
    def test_a_day(self):
        self.assertEqual(self.jot("add", "Buy", "milk").stdout, "1: Buy milk\n")
        self.jot("add", "Call Ann")
        self.jot("done", "1")
        self.assertEqual(self.jot("list").stdout, "[ ] 2: Call Ann\n")
        self.assertEqual(self.jot("list", "--all").stdout.splitlines()[0], "[x] 1: Buy milk")

    def test_mistakes(self):
        self.assertEqual(self.jot().returncode, 2)
        self.assertEqual(self.jot("done", "x").returncode, 2)
        self.assertEqual(self.jot("done", "7").returncode, 1)
        self.assertEqual(self.jot("remove", "7").stderr, "jot: no task 7\n")
