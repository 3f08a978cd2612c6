"""Hundreds of escape attempts, run in every sandbox as root and as an unprivileged user.

`make test` runs the core and some lines of each kind; `make proofs` runs all.
"""

import errno
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agent.security.sandbox.landlock.sandbox import kernel_abi
from tests.agent.security.sandbox.attempts import core, corpus, drive, escapes
from tests.ordinary_user import USERS
from tests.processes import lasting_command


def some() -> list[str]:
    """Return the lines specific to sandboxes, and a few of each kind of evasion."""
    return [*core(), *corpus()[::10]]


def whole() -> list[str]:
    return [*core(), *corpus()]


# The tested lines.
EXTENT = pytest.mark.parametrize(
    "lines", [some, pytest.param(whole, marks=pytest.mark.slow)], ids=["some", "whole"]
)


@EXTENT
@pytest.mark.parametrize("user", USERS)
def test_bubblewrap_blocks_escapes(place: Path, user: str, lines: Callable[[], list[str]]) -> None:
    if shutil.which("bwrap") is None:
        pytest.skip("bubblewrap is not installed")
    assert escapes(place, user, name="bwrap", lines=lines()) == []


@EXTENT
@pytest.mark.parametrize("user", [user for user in USERS if user != "root"])
def test_landlock_blocks_escapes(place: Path, user: str, lines: Callable[[], list[str]]) -> None:
    if kernel_abi() < 1:
        pytest.skip("this kernel has no Landlock")
    assert escapes(place, user, name="landlock", lines=lines()) == []


@pytest.mark.slow
@pytest.mark.parametrize("abi", [1, 3, 5])
def test_older_landlock_blocks_escapes(place: Path, abi: int) -> None:
    if kernel_abi() < abi:
        pytest.skip("this kernel has no Landlock")
    lines = [*core(), *corpus("processes"), *corpus("paths")[:20], *corpus("network")[:10]]
    assert escapes(place, USERS[-1], name="landlock", abi=abi, lines=lines) == []


# Each line changes a workspace that is not read-only.
PYTHON = "python3 -c 'import fcntl,mmap,os,sys; f=os.open(\"file\",os.O_RDONLY); {}'"
WRITES = [
    "echo true | xargs --max-lines rm true -f",
    "echo x >file", "echo x >>new", "touch file", "touch new", "chmod 600 file", "rm file",
    "mv file other", "mv file $TMPDIR/", "mkdir new", "rmdir folder || rm -r folder",
    "ln file other", "ln -s file other", "truncate -s 0 file", "mkfifo new",
    "cp -p /bin/sh file", "sed -i s/c/d/ file", "dd if=/dev/zero of=file count=1",
    "cd folder; echo x >../new", "env -S 'sh -c \"echo x >new\"'",
    *map(PYTHON.format, (
        "os.fchmod(f,0o600)", "os.utime(f)", "os.utime(f,(5,5))", "os.utime(\"file\",(5,5))",
        "os.chmod(f\"/proc/self/fd/{f}\",0o600)", "os.open(\"file\",os.O_RDONLY|os.O_TRUNC)",
        "os.open(f\"/proc/self/fd/{f}\",os.O_RDWR|os.O_TRUNC)", "os.truncate(\"file\",0)",
        "os.rename(\"file\",\"other\")", "os.open(\".\",os.O_TMPFILE|os.O_RDWR); "
        "os.mkdir(\"new\")",
        "mmap.mmap(os.open(\"file\",os.O_RDWR),0)[0]=1",
    )),
]  # fmt: skip
# These need a file system with support for them, or depend on another layer that is missing.
ODD_WRITES = [
    "ln file $TMPDIR/f && echo x >$TMPDIR/f",
    "mount -o remount,rw,bind . ; touch -d 2001-01-01 .",
    PYTHON.format('os.setxattr(f,"user.x",b"x")'),
    PYTHON.format('os.setxattr("file","user.x",b"x")'),
    PYTHON.format('fcntl.ioctl(f,0x40086602,(64).to_bytes(8,"little"))'),
]


@EXTENT
@pytest.mark.parametrize("user", USERS)
def test_bubblewrap_protects_a_read_only_workspace(
    place: Path, user: str, lines: Callable[[], list[str]]
) -> None:
    if shutil.which("bwrap") is None:
        pytest.skip("bubblewrap is not installed")
    order = {"lines": [*WRITES, *ODD_WRITES, *lines()], "read_only": True}
    assert escapes(place, user, name="bwrap", **order) == []


@EXTENT
def test_landlock_protects_a_read_only_workspace(
    place: Path, lines: Callable[[], list[str]]
) -> None:
    if kernel_abi() < 6 or USERS[-1] == "root":
        pytest.skip("this kernel has no such Landlock")
    order = {"lines": [*WRITES, *ODD_WRITES, *lines()], "read_only": True}
    assert escapes(place, USERS[-1], name="landlock", abi=99, **order) == []


@pytest.mark.slow
@pytest.mark.parametrize("abi", [5, 3, 2, 1])
def test_older_landlock_protects_a_read_only_workspace(place: Path, abi: int) -> None:
    if kernel_abi() < abi or USERS[-1] == "root":
        pytest.skip("this kernel has no such Landlock")
    order = {"lines": [*WRITES, *ODD_WRITES], "read_only": True}
    assert escapes(place, USERS[-1], name="landlock", abi=abi, **order) == []


def test_same_lines_change_a_writable_workspace(place: Path) -> None:
    if shutil.which("bwrap") is None:
        pytest.skip("bubblewrap is not installed")
    escaped_lines = escapes(place, USERS[-1], name="bwrap", lines=WRITES, read_only=False)
    missed = set(WRITES) - {
        line for line, traces in escaped_lines if "the workspace was changed" in traces
    }
    assert not missed


# Shells use different wording.
_KILLED = re.compile(r"^.*Killed.*\n", re.MULTILINE)
WORK = """
set -e
echo one >f; chmod 751 f; touch -d 2001-01-01T00:00:00Z f; stat -c '%a %Y' f
mkdir d; cp -p f d/g; chmod 700 d; stat -c %a d/g; ln f h; mv h d/; rm -r d
echo private >"$HOME/x"; echo temporary >$TMPDIR/y; cat "$HOME/x"
python3 -c "import subprocess as s; print(s.run(['cat'], input=b'piped', stdout=-1).stdout)"
bash -c 'cat <(echo substituted)'; echo out >/dev/stdout; echo gone >/dev/null
sleep 30 & timeout -s KILL 0.1 sleep 30 || echo timed-out
tar cf t.tar f; mkdir u; tar xpf t.tar -C u; stat -c %a u/f
exit 3
"""


@pytest.mark.parametrize("abi", [99, 6])
def test_ordinary_work_succeeds_under_landlock(place: Path, abi: int) -> None:
    if kernel_abi() < 6:
        pytest.skip("this kernel's Landlock cannot scope signals")
    code, result, _ = drive(place, USERS[-1], name="landlock", abi=abi, lines=[WORK], listen=True)
    stamp = "978307200"
    wanted = f"""751 {stamp}
751
private
b'piped'
substituted
out
timed-out
751
"""
    assert (_KILLED.sub("", result), code) == (wanted, 3)


WATCHES = """python3 -c "
import ctypes, os, struct
c = ctypes.CDLL(None, use_errno=True)
i = c.inotify_init1(0)
for path in (b'/var/tmp', b'/proc/self/fd/%d' % os.open('/var/tmp', os.O_PATH), b'no-such-file'):
    print(c.inotify_add_watch(i, path, 0xFFF), ctypes.get_errno())
print(c.inotify_add_watch(i, b'/usr/bin', 0x100), c.inotify_add_watch(i, b'.', 0x100))
open('created', 'w').close()
print(os.read(i, 4096)[16:].rstrip(bytes(1)).decode())
"
"""


def test_landlock_command_watches_only_folders_it_can_read(place: Path) -> None:
    if kernel_abi() < 1:
        pytest.skip("this kernel has no Landlock")
    order = {"name": "landlock", "listen": True, "lines": [WATCHES]}
    code, output, _ = drive(place, USERS[-1], **order)
    denied = f"-1 {errno.EACCES}"
    assert output.splitlines() == [denied, denied, f"-1 {errno.ENOENT}", "1 2", "created"]
    assert code == 0


def test_landlock_ends_all_descendants(place: Path) -> None:
    if kernel_abi() < 1:
        pytest.skip("this kernel has no Landlock")
    mark = lasting_command()
    tree = f"setsid sh -c '{mark} & ({mark} &) ; exec {mark}' & sh -c 'trap \"\" TERM; {mark}' &"
    order: dict[str, Any] = {"name": "landlock", "listen": True, "mark": mark.replace(" ", "\0")}
    ended = drive(place, USERS[-1], **order, lines=[f"{tree} echo begun"])
    assert ended == [0, "begun\n", []]
    late = drive(place, USERS[-1], **order, lines=[f"{tree} echo begun; {mark}"], timeout_s=3)
    assert late == [None, "begun\n", []]
    killed = drive(place, USERS[-1], **order, lines=["kill -TERM $$"])
    assert killed[0] == -15


def test_escapes_are_detected_without_a_sandbox(place: Path) -> None:
    lines = {
        "cat {outside}/canary.txt": "the canary was shown",
        "cp {outside}/canary.txt .": "the canary is in the workspace",
        "chmod 600 {outside}/canary.txt": "outside was changed",
        "bash -c 'exec 3<>/dev/tcp/127.0.0.1/{port}'": "a connection was made",
        "bash -c 'echo x >/dev/udp/127.0.0.1/{port}'": "a datagram was sent",
        "touch f; chmod u+s f": "a file runs as its owner",
        "kill -9 {pid}": "the process outside is dead",
    }
    traces_by_line = dict(escapes(place, USERS[-1], name="none", lines=[*lines, "echo harmless"]))
    assert set(traces_by_line) == set(lines)
    for line, trace in lines.items():
        assert any(found_trace.startswith(trace) for found_trace in traces_by_line[line]), (
            line,
            traces_by_line[line],
        )


def test_processes_left_are_detected_without_a_sandbox(place: Path) -> None:
    # It leaves the group before the command ends.
    line = "setsid sh -c 'touch left; exec sleep 30' & until test -e left; do sleep 0.01; done"
    ((found_line, traces),) = escapes(place, USERS[-1], name="none", lines=[line], linger_s=0)
    assert found_line == line
    assert [trace.partition(":")[0] for trace in traces] == ["processes were left"]
