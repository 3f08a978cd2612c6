import signal
import subprocess
import sys
from pathlib import Path

import pytest

from gateway.runtime.lock import AlreadyRunning, acquire

HOLDER = (
    "import sys\nfrom pathlib import Path\nfrom gateway.runtime.lock import acquire\n"
    "with acquire(Path(sys.argv[1]), 'kore gateway'):\n"
    "    print('mine', flush=True)\n    sys.stdin.read()\n"
)


def holder(path: Path) -> "subprocess.Popen[bytes]":
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"mine\n"
    return process


def test_second_process_reports_the_owner(tmp_path: Path) -> None:
    path = tmp_path / "kore.lock"
    process = holder(path)
    with process:
        owner = rf"in use by kore gateway \(pid {process.pid}\)"
        with pytest.raises(AlreadyRunning, match=owner), acquire(path, "kore agent"):
            pass
        process.communicate()
    with acquire(path, "kore agent") as unclean:
        assert not unclean


def test_kill_releases_the_lock_and_is_detected(tmp_path: Path) -> None:
    path = tmp_path / "kore.lock"
    with holder(path) as process:
        process.send_signal(signal.SIGKILL)
    with acquire(path, "kore agent") as unclean:
        assert unclean
    with acquire(path, "kore agent") as unclean:
        assert not unclean


def test_error_while_locked_is_an_unclean_end(tmp_path: Path) -> None:
    path = tmp_path / "kore.lock"
    with pytest.raises(ValueError, match="a bug"), acquire(path, "kore agent"):
        raise ValueError("a bug")
    with acquire(path, "kore agent") as unclean:
        assert unclean


def test_lock_file_is_private(tmp_path: Path) -> None:
    path = tmp_path / "kore.lock"
    with acquire(path, "kore agent"):
        assert path.stat().st_mode & 0o777 == 0o600
