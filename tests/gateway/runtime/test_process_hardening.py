import subprocess
import sys

import pytest

ASKS = """
import ctypes, os, subprocess
from gateway.runtime.process_hardening import disable_core_dumps
dumpable = lambda: ctypes.CDLL(None).prctl(3, 0, 0, 0, 0)
print(dumpable(), disable_core_dumps(), dumpable(), len(os.listdir("/proc/self/fd")) > 0)
child = "import ctypes; print(ctypes.CDLL(None).prctl(3, 0, 0, 0, 0))"
import sys
subprocess.run([sys.executable, "-c", child], check=True)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="Linux only")
def test_the_process_is_closed_and_what_it_starts_is_not() -> None:
    ran = subprocess.run(
        [sys.executable, "-u", "-c", ASKS], capture_output=True, text=True, check=True
    )
    assert ran.stdout.split("\n")[:2] == ["1 True 0 True", "1"]
