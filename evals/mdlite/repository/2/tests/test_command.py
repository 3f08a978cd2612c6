import subprocess
import sys
import unittest


class CommandTest(unittest.TestCase):
    def test_reads_standard_input(self):
        done = subprocess.run(
            [sys.executable, "-m", "mdlite"], input="# Hi\n", capture_output=True, text=True
        )
        self.assertEqual(done.stdout, "<h1>Hi</h1>\n")
