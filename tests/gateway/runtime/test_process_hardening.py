import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="Linux only")

_CHILDREN = """
import ctypes, os, subprocess, sys
from gateway.runtime.process_hardening import disable_core_dumps
dumpable = lambda: ctypes.CDLL(None).prctl(3, 0, 0, 0, 0)
print(dumpable(), disable_core_dumps(), dumpable(), len(os.listdir("/proc/self/fd")) > 0)
child = "import ctypes; print(ctypes.CDLL(None).prctl(3, 0, 0, 0, 0))"
subprocess.run([sys.executable, "-c", child], check=True)
"""

# All commands share one entry. Each verb runs in a fork and reports its PR_GET_DUMPABLE.
_VERBS = """
import ctypes, os, sys
from gateway.__main__ import main
report = os.dup(1)
os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
for verb in sys.argv[1:]:
    if not (pid := os.fork()):
        main([verb, "--help"])
        os.write(report, f"{verb} {ctypes.CDLL(None).prctl(3, 0, 0, 0, 0)}\\n".encode())
        os._exit(0)
    os.waitpid(pid, 0)
"""


def _lines(script: str, *words: str) -> list[str]:
    ran = subprocess.run(
        [sys.executable, "-u", "-c", script, *words], capture_output=True, text=True, check=True
    )
    return ran.stdout.splitlines()


def test_process_is_undumpable_and_its_children_are_not() -> None:
    assert _lines(_CHILDREN)[:2] == ["1 True 0 True", "1"]


def test_verbs_are_undumpable() -> None:
    verbs = ["agent", "gateway"]
    assert _lines(_VERBS, *verbs) == [f"{verb} 0" for verb in verbs]
