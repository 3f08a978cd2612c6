"""Configuration of the C library's allocator, tested in separate processes."""

import subprocess
import sys

import pytest

from gateway.runtime.libc import function

pytestmark = pytest.mark.skipif(
    function("malloc_trim") is None, reason="the C library has no malloc_trim: it is not glibc"
)

# Larger than allocations in Python's own pools.
_ARENAS = """
import ctypes, sys, tempfile, threading
from gateway.runtime.allocator import keep_one_arena

def arenas():
    libc = ctypes.CDLL(None)
    libc.fopen.restype = ctypes.c_void_p
    with tempfile.NamedTemporaryFile() as told:
        stream = ctypes.c_void_p(libc.fopen(told.name.encode(), b"w"))
        libc.malloc_info(0, stream)
        libc.fclose(stream)
        return told.read().count(b"<heap nr=")

if sys.argv[1:]:
    keep_one_arena()
begun = threading.Barrier(4)

def work():
    begun.wait()
    kept.append([bytearray(5000) for _ in range(100)])
    begun.wait()

kept = []
threads = [threading.Thread(target=work) for _ in range(3)]
for thread in threads:
    thread.start()
begun.wait()
begun.wait()
print(arenas())
"""

_TRIMMED = """
import asyncio
from gateway.runtime.allocator import trim_regularly

def anonymous_kb():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("RssAnon"))

async def main():
    before = anonymous_kb()
    texts = [bytearray(20_000) for _ in range(2000)]
    del texts[:-1]
    texts += [bytearray(100)]
    most = anonymous_kb()
    async with asyncio.timeout(20):
        trimming = asyncio.create_task(trim_regularly(0.01))
        while anonymous_kb() - before > (most - before) / 4:
            await asyncio.sleep(0.01)
    trimming.cancel()
    print("given back", most - before)

asyncio.run(main())
"""


def test_threads_share_one_arena() -> None:
    assert int(_run_script(_ARENAS)) > 1, "the C library's own way"
    assert int(_run_script(_ARENAS, "kept")) == 1


def test_free_pages_between_used_ones_are_released() -> None:
    result, kilobytes = _run_script(_TRIMMED).rsplit(maxsplit=1)
    assert result == "given back"
    assert int(kilobytes) > 20_000, "there was something to give back"


def test_missing_library_function_is_skipped() -> None:
    assert function("a_name_that_no_library_has") is None


def _run_script(script: str, *words: str) -> str:
    ran = subprocess.run(
        [sys.executable, "-c", script, *words], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout
