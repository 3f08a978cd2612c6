import json
import tempfile
import unittest
from pathlib import Path

from layerconf import ConfigError, load


class LoadTest(unittest.TestCase):
    def setUp(self):
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))

    def file(self, name, text):
        path = self.folder / name
        path.write_text(text)
        return path

    def test_layers(self):
        file = self.file("a.json", json.dumps({"db": {"host": "a", "port": 1}}))
        two = self.file("b.ini", "[db]\nhost = b\n")
        settings = load({"db": {"name": "x"}}, [file, two])
        self.assertEqual(
            [settings["db.host"], settings["db.port"], settings["db.name"]], ["b", 1, "x"]
        )

    def test_missing_key(self):
        with self.assertRaisesRegex(ConfigError, "db.host is not set"):
            load()["db.host"]

    def test_missing_file(self):
        with self.assertRaises(ConfigError):
            load(files=[self.folder / "none.json"])
