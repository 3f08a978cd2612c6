import contextlib
import io
import os
import tempfile
import unittest
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

from jot.command import main


class JotCase(unittest.TestCase):
    def setUp(self):
        self.file = Path(self.enterContext(tempfile.TemporaryDirectory()), "jot.json")
        self.enterContext(mock.patch.dict(os.environ, JOT_FILE=str(self.file)))

    def jot(self, *words):
        """What the command prints and its exit code."""
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                code = main(list(words))
            except SystemExit as ended:
                code = ended.code
        return SimpleNamespace(stdout=out.getvalue(), stderr=err.getvalue(), returncode=code)
