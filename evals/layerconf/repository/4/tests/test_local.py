import json
import tempfile
import unittest
from pathlib import Path

from layerconf import load


class LocalTest(unittest.TestCase):
    def test_local_wins(self):
        folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        (folder / "app.json").write_text(json.dumps({"port": 1}))
        (folder / "app.local.json").write_text(json.dumps({"port": 2}))
        self.assertEqual(load(files=[folder / "app.json"])["port"], 2)
