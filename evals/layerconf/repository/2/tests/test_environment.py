import unittest

from layerconf import load


class EnvironmentTest(unittest.TestCase):
    def test_two_underscores_are_a_dot(self):
        settings = load(prefix="APP", environ={"APP_DATABASE__HOST": "db1", "OTHER": "x"})
        self.assertEqual(settings["database.host"], "db1")
