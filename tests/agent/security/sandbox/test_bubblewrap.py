"""Commands of `exec` in bubblewrap: abilities and limits."""

import asyncio
import itertools
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from agent.errors import ToolError
from agent.security.files.file_io import append, write_atomic
from agent.security.sandbox.base import Limits, SandboxCommand
from agent.security.sandbox.bubblewrap import Bubblewrap, features_of
from agent.security.sandbox.idmapped_mounts import _map_lines
from agent.security.sandbox.unprivileged_user import USER
from agent.settings import ToolSettings
from agent.tools.base import CallContext, ToolEnvironment
from agent.tools.shell.exec import Exec
from agent.types import ToolCall
from tests.processes import has_ended, lasting_command, processes, runs

ROOT = Path(__file__).parents[4]
_MARK = "user.kore.untrusted"


@pytest.fixture(scope="module")
def bwrap() -> Bubblewrap:
    program = shutil.which("bwrap")
    if program is None:
        pytest.skip("bubblewrap is not installed")
    help_text = subprocess.run(
        [program, "--help"], capture_output=True, text=True, check=True
    ).stdout
    limits = Limits(processes=40, file_bytes=1_000_000, memory_bytes=300_000_000, cpu_s=2)
    return Bubblewrap(program, features_of(help_text), limits)


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "workspace"
    folder.mkdir()
    return folder


@pytest.fixture
def call(workspace: Path) -> CallContext:
    memory = workspace / "memory" / "MEMORY.md"
    return CallContext(
        ToolCall("c1", "exec", {}, "{}"),
        ToolEnvironment("s1", workspace, memory),
        lambda text, stream: None,
    )


async def run(bwrap: Bubblewrap, call: CallContext, command: str, **settings: object) -> str:
    tool = Exec(replace(ToolSettings(), sandbox=bwrap, **settings))  # type: ignore[arg-type]
    return (await tool.run({"command": command}, call)).for_model


async def test_workspace_has_the_same_path_as_outside(
    bwrap: Bubblewrap, call: CallContext, workspace: Path
) -> None:
    (workspace / "in").write_text("given\n")
    process = await run(bwrap, call, "pwd; cat in; echo made >out; chmod 700 out; id -un")
    assert process == f"{workspace}\ngiven\nkore\n[exit code 0]"
    assert (workspace / "out").read_text() == "made\n"
    assert (workspace / "out").stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("value", [None, b"", b"9999999999"])
async def test_marks_cannot_be_removed_or_forged(
    bwrap: Bubblewrap, call: CallContext, workspace: Path, value: bytes | None
) -> None:
    places = [(workspace, "user.kore.since", b"100.0"), (workspace / "page", _MARK, b"1")]
    (workspace / "page").touch()
    try:
        for path, name, mark in places:
            os.setxattr(path, name, mark)
    except OSError:
        pytest.skip("this file system keeps no marks")
    done = "os.removexattr(p, n)" if value is None else f"os.setxattr(p, n, {value!r})"
    for path, name, mark in places:
        for target in (f"{str(path)!r}", f"os.open({str(path)!r}, os.O_RDONLY)"):
            text = f"import os; p, n = {target}, {name!r}; {done}"
            process = await run(bwrap, call, f"python3 -c {shlex.quote(text)}")
            assert "not supported" in process
        # Kore itself marks recently changed files again.
        assert os.getxattr(path, name) in (mark, b"2")


async def test_set_id_files_and_outside_sockets_are_blocked(
    bwrap: Bubblewrap, call: CallContext, workspace: Path
) -> None:
    (workspace / "f").write_text("x")
    code = "import os; os.open('g', os.O_CREAT | os.O_WRONLY, 0o6755); os.mknod('h', 0o104755)"
    process = await run(bwrap, call, f'chmod 6755 f; chmod u+s f; python3 -c "{code}"; ls -l')
    assert [path.name for path in workspace.iterdir() if path.stat().st_mode & 0o6000] == []
    assert "Operation not permitted" in process
    with socket.socket(socket.AF_UNIX) as door:
        opened = os.open(workspace, os.O_PATH)
        door.bind(f"/proc/self/fd/{opened}/door")
        os.close(opened)
        door.listen()
        door.setblocking(False)
        await run(
            bwrap, call, "python3 -c 'import socket as s; s.socket(s.AF_UNIX).connect(\"door\")'"
        )
        with pytest.raises(BlockingIOError):
            door.accept()
    pair = "import socket; a, b = socket.socketpair(); a.send(b'y'); print(b.recv(1))"
    assert "b'y'" in await run(bwrap, call, f'python3 -c "{pair}"')


async def test_kernel_files_are_not_writable(bwrap: Bubblewrap, call: CallContext) -> None:
    # Open for writing without writing: these files belong to this machine.
    files = (
        "/proc/sys/kernel/core_pattern /proc/sys/vm/swappiness /proc/sysrq-trigger /proc/self/comm"
    )
    process = await run(
        bwrap, call, f"for f in {files}; do (: >>$f) && echo opened $f; done; ls /sys"
    )
    assert "opened" not in process


@pytest.mark.skipif(os.geteuid() != 0, reason="is about root's commands")
async def test_command_of_root_is_unprivileged_but_can_change_the_workspace(
    bwrap: Bubblewrap, call: CallContext, workspace: Path
) -> None:
    (workspace / "in").write_text("given\n")
    (workspace / "in").chmod(0o600)
    (workspace / "sub").mkdir(mode=0o700)
    command = lasting_command()
    script = (
        f"cat in; echo more >>in; echo x >sub/made; mkdir sub/d; echo seen >/dev/stderr; {command}"
    )
    task = asyncio.create_task(run(bwrap, call, script, exec_timeout_s=100))
    assert await runs(command)
    # The watcher outside belongs to root, and also has the words in its command line.
    users = {
        (Path("/proc") / str(pid)).stat().st_uid
        for pid in processes(command)
        if (Path("/proc") / str(pid) / "comm").read_text() == "sleep\n"
    }
    assert users == {USER}
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
    assert (workspace / "in").read_text() == "given\nmore\n"
    for path in (workspace / "in", workspace / "sub" / "made", workspace / "sub" / "d"):
        assert (path.stat().st_uid, path.stat().st_gid) == (0, 0)


@pytest.mark.skipif(os.geteuid() != 0, reason="is about root's commands")
async def test_command_of_root_works_in_the_project_of_another_user(
    bwrap: Bubblewrap, call: CallContext, workspace: Path
) -> None:
    (workspace / "in").write_text("given\n")
    (workspace / "private").mkdir(mode=0o700)
    git = ["git", "-c", "user.name=A", "-c", "user.email=a@example.org"]
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "first"]):
        subprocess.run([*git, *words], cwd=workspace, check=True)
    subprocess.run(["chown", "-R", "1234:4321", workspace], check=True)
    # Root's own files in it stay out of reach.
    (workspace / "of root").write_text("root\n")
    (workspace / "secret").write_text("canary\n")
    (workspace / "secret").chmod(0o600)
    write_atomic(workspace / "new/from-a-tool", b"made\n")
    append(workspace / "new/appended", b"made\n")
    process = await run(
        bwrap, call,
        "echo more >>in; echo x >private/made; mkdir d; echo x >>new/from-a-tool; touch new/other;"
        f"{' '.join(git)} commit -qam second && git log --format=%s; cat secret;"
        "echo x >>'of root'; cat 'of root'; echo x >.git/hooks/pre-commit",
    )  # fmt: skip
    assert "second\nfirst\n" in process
    assert "canary" not in process
    assert (workspace / "of root").read_text() == "root\n"
    assert not (workspace / ".git/hooks/pre-commit").exists()
    for name in ("in", "private/made", "d", ".git/index", "new", "new/from-a-tool", "new/other"):
        info = (workspace / name).stat()
        assert (info.st_uid, info.st_gid) == (1234, 4321), name
    assert (workspace / "new/appended").stat().st_uid == 1234
    assert (workspace / "new/from-a-tool").read_text() == "made\nx\n"


@pytest.mark.skipif(os.geteuid() != 0, reason="is about root's commands")
@pytest.mark.parametrize("number", [0, 1, 1000, USER - 1])
def test_id_maps_cover_every_id_once(number: int) -> None:
    numbers = [tuple(map(int, line.split())) for line in _map_lines(number)]
    assert (number, USER, 1) in numbers
    for column in (0, 1):
        ranges = sorted((line[column], line[column] + line[2]) for line in numbers)
        assert all(first[1] <= second[0] for first, second in itertools.pairwise(ranges))
    on_disk = sum(line[2] for line in numbers)
    assert on_disk == 0xFFFFFFFF - 1


@pytest.mark.skipif(os.geteuid() != 0, reason="is about root's commands")
async def test_additional_folder_of_root_is_readable(bwrap: Bubblewrap, call: CallContext) -> None:
    # Not below /tmp, where a command has its own folder.
    with tempfile.TemporaryDirectory(prefix="kore-further-", dir="/var/tmp") as name:
        folder = Path(name)
        (folder / "f").write_text("given")
        box = replace(bwrap, readable_folders=(folder,))
        process = await run(box, call, f"cat {folder}/f; echo x >{folder}/g")
        assert process.startswith("given")
        assert [path.name for path in folder.iterdir()] == ["f"]


async def test_environment_is_not_inherited(
    bwrap: Bubblewrap, call: CallContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "canary-key")
    monkeypatch.setenv("PATH", f"/root/bin:/usr/games:{Path(sys.executable).parent}")
    process = await run(
        bwrap, call, "env; tr '\\0' '\\n' </proc/1/environ; ls /proc | grep -c '^[0-9]'"
    )
    assert "canary" not in process
    assert "PATH=/usr/games:/usr/local/sbin:" in process
    assert "/root" not in process.split("PATH=")[1].split("\n")[0]


async def test_blocked_paths_are_hidden_and_git_is_readable(
    bwrap: Bubblewrap, call: CallContext, workspace: Path
) -> None:
    (workspace / ".git" / "hooks").mkdir(parents=True)
    (workspace / ".git" / "HEAD").write_text("ref: x\n")
    (workspace / ".env").write_text("TOKEN=canary\n")
    (workspace / "AGENT.md").write_text("be good\n")
    process = await run(
        bwrap, call,
        "cat .env .git/HEAD AGENT.md; echo x >.git/hooks/post-commit; echo x >AGENT.md;"
        "mv .git g; mv .env e; rm -rf .git .env; echo TOKEN >.env",
    )  # fmt: skip
    assert "canary" not in process
    assert "ref: x\nbe good\n" in process
    assert (workspace / ".env").read_text() == "TOKEN=canary\n"
    assert list((workspace / ".git" / "hooks").iterdir()) == []
    assert (workspace / "AGENT.md").read_text() == "be good\n"


async def test_link_in_place_of_git_is_not_shown(
    bwrap: Bubblewrap, call: CallContext, workspace: Path, tmp_path: Path
) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "id").write_text("canary\n")
    (workspace / ".git").symlink_to(tmp_path / "home")
    assert "canary" not in await run(bwrap, call, "cat .git/id; ls -la .git/")


async def test_own_files_of_kore_in_the_workspace_are_closed_and_fixed(
    bwrap: Bubblewrap, call: CallContext, workspace: Path
) -> None:
    (workspace / "conf").mkdir()
    own = workspace / "conf" / "config.json"
    own.write_text("canary")
    script = "cat conf/config.json; mv conf elsewhere; rm -rf conf; echo x >conf/config.json"
    assert "canary" not in await run(bwrap, call, script, off_limits=(own,))
    assert own.read_text() == "canary"


async def test_guest_cannot_see_the_memory(
    bwrap: Bubblewrap, call: CallContext, workspace: Path
) -> None:
    (workspace / "memory").mkdir()
    (workspace / "memory" / "MEMORY.md").write_text("canary")
    (workspace / "USER.md").write_text("canary")
    guest = replace(call, environment=replace(call.environment, owner=False))
    assert "canary" not in await run(bwrap, guest, "cat memory/MEMORY.md USER.md; find .")
    assert "canary" in await run(
        bwrap,
        replace(call, environment=replace(call.environment, owner=True)),
        "cat memory/MEMORY.md",
    )


async def test_fork_bomb_is_limited_and_killed(bwrap: Bubblewrap, call: CallContext) -> None:
    mark = lasting_command().split()[1]
    bomb = f"bash -c ': {mark}; f() {{ f | f & }}; f; sleep 0.5' 2>/dev/null; echo alive"
    assert "alive" in await run(bwrap, call, bomb)
    assert await has_ended(mark)
    # The program that reads the file must not need a process of its own.
    crowd = '(for i in $(seq 200); do sleep 2 & done) 2>said; read -r line <said; echo "$line"'
    assert "fork" in await run(bwrap, call, crowd)


async def test_files_and_memory_are_limited(
    bwrap: Bubblewrap, call: CallContext, workspace: Path
) -> None:
    await run(bwrap, call, "head -c 3000000 /dev/zero >big; head -c 3000000 /dev/zero >/tmp/big")
    assert (workspace / "big").stat().st_size <= 1_000_000
    process = await run(bwrap, call, "/usr/bin/perl -e '$x = \"x\" x 900_000_000; print length $x'")
    assert "900000000" not in process


async def test_processor_time_is_limited(bwrap: Bubblewrap, call: CallContext) -> None:
    process = await run(bwrap, call, "ulimit -t; sh -c 'while :; do :; done'; echo $?")
    assert process.startswith("2\n")
    # SIGKILL, because the soft limit equals the hard limit.
    assert "137" in process


async def test_no_process_survives_end_timeout_or_cancellation(
    bwrap: Bubblewrap, call: CallContext, workspace: Path
) -> None:
    mark = lasting_command().split()[1]
    await run(bwrap, call, f"setsid sh -c ': {mark}; sleep 600' >/dev/null 2>&1 & echo started")
    assert await has_ended(mark)
    tool = Exec(ToolSettings(sandbox=bwrap))
    command = lasting_command()
    result = await tool.run({"command": f"setsid {command} & {command}", "timeout_s": 0.5}, call)
    assert "stopped" in result.for_model
    assert await has_ended(command)
    command = lasting_command()
    task = asyncio.create_task(tool.run({"command": command}, call))
    assert await runs(command)
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
    assert await has_ended(command)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
@pytest.mark.parametrize(
    ("folder", "words"),
    [("/proc/bus", "/proc/bus is on a file system"), ("/missing", "failed (No such file")],
)
def test_folder_that_cannot_be_mounted_is_named(
    workspace: Path, bwrap: Bubblewrap, folder: str, words: str
) -> None:
    """Only the first is a matter of file systems."""
    temporary = workspace if folder == "/proc/bus" else Path(folder)
    job = replace(SandboxCommand("true", workspace, workspace), temporary=temporary)
    with (
        pytest.raises(ToolError, match=re.escape(words)),
        bwrap.showing((Path(folder),)).prepare(job),
    ):
        pass


KORE = """
import asyncio, shutil, sys
from pathlib import Path
from agent.security.sandbox.base import SandboxCommand
from agent.security.sandbox.idmapped_mounts import _map_lines
from agent.security.sandbox.unprivileged_user import USER
from agent.security.sandbox.bubblewrap import Bubblewrap
from agent.tools.shell.process_group import run
box, folder = Bubblewrap(shutil.which("bwrap"), frozenset()), Path(sys.argv[1])
async def main():
    line = f"setsid {sys.argv[2]} & {sys.argv[2]}"
    with box.prepare(SandboxCommand(line, folder, folder)) as spawn:
        await run(spawn, 500, print)
asyncio.run(main())
"""


async def test_all_processes_die_when_kore_is_killed(bwrap: Bubblewrap, workspace: Path) -> None:
    command = lasting_command()
    kore = subprocess.Popen([sys.executable, "-c", KORE, str(workspace), command], cwd=ROOT)
    try:
        assert await runs(command)
    finally:
        kore.kill()
        kore.wait()
    assert await has_ended(command)


STARTER = f"""
import sys
{KORE.split("asyncio.run")[0]}
sys.stdin.readline()
asyncio.run(main())
"""


def test_command_dies_when_kore_is_killed_during_its_start(
    bwrap: Bubblewrap, workspace: Path
) -> None:
    rounds = 24
    for number in range(rounds):
        command = lasting_command()
        with subprocess.Popen(
            [sys.executable, "-c", STARTER, str(workspace), command],
            cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        ) as kore:  # fmt: skip
            assert kore.stdin is not None
            with suppress(subprocess.TimeoutExpired):
                kore.stdin.write(b"\n")
                kore.stdin.flush()
                kore.wait(0.003 + 0.06 * number / rounds)
            kore.kill()
        assert asyncio.run(has_ended(command)), f"round {number}"


async def test_first_process_of_the_namespace_stays_in_the_killed_group(
    bwrap: Bubblewrap, call: CallContext
) -> None:
    command = lasting_command()
    task = asyncio.create_task(run(bwrap, call, command, exec_timeout_s=100))
    assert await runs(command)
    groups: dict[str, set[int]] = {}
    for pid in processes(command.split()[1]):
        with suppress(OSError, ProcessLookupError):
            status = Path(f"/proc/{pid}/status").read_text()
            inside = status.split("NSpid:")[1].split("\n")[0].split()[1:]
            # The second process waits for the command and reports about it.
            kind = {"": "outside", "1": "first", "2": "second"}.get("".join(inside), "command")
            groups.setdefault(kind, set()).add(os.getpgid(pid))
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
    assert groups["first"] == groups["second"] == groups["outside"]
    assert not groups["command"] & groups["outside"]


def test_root_folder_is_rejected_as_workspace(bwrap: Bubblewrap) -> None:
    command = SandboxCommand("true", Path("/"), Path("/"))
    with pytest.raises(ToolError, match=r"whole file system"), bwrap.prepare(command):
        pass


async def test_control_group_limits_the_total_memory_of_a_command(
    bwrap: Bubblewrap, call: CallContext
) -> None:
    if not any(folder.name != "pids" for folder in bwrap.groups):
        pytest.skip("no control group that counts memory can be made here")
    # Two processes within the limit of a single process, and a file in memory.
    take = "python3 -c 'd = bytearray(60_000_000); d[::4096] = b\"x\" * len(d[::4096]); input()'"
    bubblewrap = replace(bwrap, limits=replace(bwrap.limits, session_bytes=80_000_000))
    line = f"mkfifo gate; {take} <>gate & {take} <>gate & wait %1; echo $?; wait %2; echo $?"
    process = await run(bubblewrap, call, line, exec_timeout_s=5)
    # The kernel chooses which part it kills: the shell or one of the two.
    assert "the kernel killed at least part of it" in process
