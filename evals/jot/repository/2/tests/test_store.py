import os
import tempfile
import unittest
from pathlib import Path
from unittest import mock

from jot import store


class StoreTest(unittest.TestCase):
    def test_keeps(self):
        folder = self.enterContext(tempfile.TemporaryDirectory())
        with mock.patch.dict(os.environ, JOT_FILE=str(Path(folder, "x.json"))):
            store.add("a")
            self.assertEqual([task["text"] for task in store.load()], ["a"])
