"""The bubblewrap sandbox of this machine, for tests that need a real one."""

import shutil
import subprocess

import pytest

from agent.security.sandbox.bubblewrap import Bubblewrap, features_of


def installed_bubblewrap() -> Bubblewrap:
    """Return the sandbox, or skip the test if bubblewrap is not installed."""
    program = shutil.which("bwrap")
    if program is None:
        pytest.skip("bubblewrap is not installed")
    result = subprocess.run([program, "--help"], capture_output=True, text=True, check=True)
    return Bubblewrap(program, features_of(result.stdout))
