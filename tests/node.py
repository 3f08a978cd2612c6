"""Node.js for tests of the TypeScript client."""

import shutil
import subprocess

import pytest

# Node 20 needs this flag for WebSocket, later versions do not, earlier versions lack it.
FLAGS = ("--experimental-websocket", "--input-type=module")


def _reason_to_skip() -> str:
    node = shutil.which("node")
    if node is None:
        return "node is not installed"
    program = "process.exit(typeof WebSocket === 'function' ? 0 : 1)"
    words = (node, *FLAGS, "-e", program)
    if subprocess.run(words, capture_output=True, check=False).returncode != 0:
        return "node has no WebSocket (20 or later has it)"
    return ""


def node() -> str:
    """Return the path of Node.js; skip the test when it is missing or too old."""
    if reason := _reason_to_skip():
        pytest.skip(reason)
    return str(shutil.which("node"))
