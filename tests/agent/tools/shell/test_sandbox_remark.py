"""Remarks on what the sandbox refused, with real programs under bubblewrap."""

import os
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from agent.prompts import load_prompt, render_prompt
from agent.security.sandbox.bubblewrap import Bubblewrap
from agent.security.sandbox.command_report import CommandReport, NetworkAttempts, ReportPipe
from agent.settings import ToolSettings
from agent.tools.base import CallContext
from agent.tools.shell.exec import Exec
from agent.tools.shell.sandbox_remark import CommandEnd, refusal_remark

OFFLINE, LOOKUP = load_prompt("sandbox/offline"), load_prompt("sandbox/lookup")
needs_bash = pytest.mark.skipif(not os.path.exists("/bin/bash"), reason="bash is not installed")


def needs(program: str) -> pytest.MarkDecorator:
    """Skip a case whose program commands cannot run."""
    path = shutil.which(program, path="/usr/bin:/bin")
    return pytest.mark.skipif(path is None, reason=f"{program} is not installed")


@pytest.fixture
def tool(box: Bubblewrap) -> Exec:
    return Exec(ToolSettings(sandbox=box))


async def output_of(tool: Exec, call: CallContext, command: str, timeout_s: float = 60) -> str:
    result = await tool.run({"command": command, "timeout_s": timeout_s}, call)
    return result.for_model


@needs_bash
@pytest.mark.parametrize(
    "command",
    [
        pytest.param("curl -sS http://example.org/ 2>&1 | tail -3", marks=needs("curl")),
        pytest.param("curl -s http://192.0.2.1/ | cat", marks=needs("curl")),
        pytest.param("curl -s -g 'http://[2001:db8::1]/'", marks=needs("curl")),
        pytest.param(
            "npm view left-pad --fetch-retries=0 2>/dev/null | tail -1", marks=needs("npm")
        ),
        pytest.param(
            "go mod init x 2>/dev/null; GOPROXY=http://proxy.example go get example.org/x | cat",
            marks=needs("go"),
        ),
        pytest.param(
            "/usr/bin/python3 -m pip download --retries 0 kore-nothing 2>/dev/null | tail -1",
            marks=needs("python3"),
        ),
        pytest.param("git clone -q http://example.org/x.git 2>/dev/null", marks=needs("git")),
    ],
)
async def test_attempt_to_use_the_network_is_named(
    tool: Exec, call: CallContext, command: str
) -> None:
    assert OFFLINE in await output_of(tool, call, command)


@needs_bash
@pytest.mark.parametrize(
    "command",
    [
        pytest.param("curl -s http://example.org/; echo done", marks=needs("curl")),
        pytest.param(
            'node -e \'require("http").get("http://example.org").on("error", () => {})\'',
            marks=needs("node"),
        ),
        "getent hosts example.org || true",
    ],
)
async def test_lookup_of_a_command_that_succeeds_is_named(
    tool: Exec, call: CallContext, command: str
) -> None:
    text = await output_of(tool, call, command)
    assert LOOKUP in text
    assert OFFLINE not in text


@needs_bash
async def test_attempt_is_named_after_a_timeout(tool: Exec, call: CallContext) -> None:
    command = (
        "exec /usr/bin/python3 -c '\n"
        "import socket, time\n"
        'try: socket.getaddrinfo("example.org", 80)\n'
        "except OSError: time.sleep(600)'"
    )
    text = await output_of(tool, call, command, timeout_s=8)
    assert OFFLINE in text
    assert "[stopped: it took longer than 8 s." in text


@needs_bash
@pytest.mark.parametrize(
    "command",
    [
        "false | cat",
        "echo 'Could not resolve host: example.org'; false",
        "echo 'Network is unreachable' >f; grep -c unreachable f",
        "getent hosts localhost $(uname -n)",
        "/usr/bin/python3 -c 'import socket; socket.socket(2, 2).connect((\"192.0.2.1\", 9))' || :",
    ],
)
async def test_other_output_does_not_name_the_network(
    tool: Exec, call: CallContext, command: str
) -> None:
    assert OFFLINE not in await output_of(tool, call, command)


@needs_bash
async def test_service_of_this_machine_is_out_of_reach(tool: Exec, call: CallContext) -> None:
    text = await output_of(tool, call, "curl -sS http://127.0.0.1:5432/ 2>&1 | cat")
    assert load_prompt("sandbox/own_network") in text


@needs_bash
async def test_unix_socket_is_named(tool: Exec, call: CallContext) -> None:
    script = 'import socket; socket.socket(socket.AF_UNIX).connect("x.sock")'
    text = await output_of(tool, call, f"/usr/bin/python3 -c '{script}' 2>&1 | tail -5")
    assert load_prompt("sandbox/unix_socket") in text


@needs_bash
async def test_configuration_of_git_is_named(
    tool: Exec, call: CallContext, workspace: Path
) -> None:
    subprocess.run(["git", "init", "-q", str(workspace)], check=True)
    command = "git remote add origin http://example.org/x.git 2>&1 | tail -1"
    assert load_prompt("sandbox/unwritable") in await output_of(tool, call, command)


@needs_bash
async def test_refused_write_is_named_if_the_command_succeeds(
    tool: Exec, call: CallContext
) -> None:
    text = await output_of(tool, call, "touch /usr/share/x; echo done")
    assert load_prompt("sandbox/unwritable") in text
    listed = "echo 'docs/x.md:3:cp: x: Read-only file system' | cat"
    assert load_prompt("sandbox/unwritable") not in await output_of(tool, call, listed)


@needs_bash
@pytest.mark.parametrize("name", ["bwrap", "none"])
@pytest.mark.parametrize(
    ("command", "ending"),
    [
        ("true", "[exit code 0]"),
        ("exit 3 | false | cat", "[exit code 0; of the pipeline: 3, 1, 0]"),
        ("false | (exit 5)", "[exit code 5; of the pipeline: 1, 5]"),
        ("set -o pipefail; false | true", "[exit code 1; of the pipeline: 1, 0]"),
        ("yes | head -1", "[exit code 0]"),
        ("false | true; exit 9", "[exit code 9]"),
        ("false | true; echo end", "[exit code 0]"),
        ("trap 'echo own' EXIT; false | true", "[exit code 0]"),
        ("sh -c 'false | true' | cat; sh -c 'false | true'", "[exit code 0]"),
        ("exec false | true", "[exit code 0; of the pipeline: 1, 0]"),
    ],
)
async def test_exit_codes_of_a_pipeline(
    box: Bubblewrap, call: CallContext, name: str, command: str, ending: str
) -> None:
    tool = Exec(ToolSettings(sandbox=box if name == "bwrap" else None))
    assert (await output_of(tool, call, command)).splitlines()[-1] == ending


@needs_bash
async def test_reporting_is_invisible_to_the_command(tool: Exec, call: CallContext) -> None:
    command = 'env | grep -E "KORE|BASH_ENV"; echo "$0 $# $BASH_ENV|"'
    assert await output_of(tool, call, command) == "/bin/bash 0 |\n[exit code 0]"


@needs_bash
@pytest.mark.parametrize("name", ["bwrap", "none"])
async def test_left_processes_are_named(box: Bubblewrap, call: CallContext, name: str) -> None:
    tool = Exec(ToolSettings(sandbox=box if name == "bwrap" else None))
    text = await output_of(tool, call, "sleep 600 & sleep 601 >/dev/null 2>&1 & echo started")
    left = render_prompt("tools/exec_left", names="sleep")
    assert text == f"started\n{left}\n[exit code 0]"


@needs_bash
@pytest.mark.parametrize("name", ["bwrap", "none"])
@pytest.mark.parametrize("command", ["echo x | cat", "echo x > >(cat)", "sleep 0 & wait"])
async def test_processes_that_end_by_themselves_are_not_named(
    box: Bubblewrap, call: CallContext, name: str, command: str
) -> None:
    tool = Exec(ToolSettings(sandbox=box if name == "bwrap" else None))
    assert "background" not in await output_of(tool, call, command)


@needs_bash
async def test_forged_report_is_limited_to_numbers_and_names(tool: Exec, call: CallContext) -> None:
    command = (
        "for fd in /proc/$$/fd/*; do n=${fd##*/}; [ $n -gt 9 ] && [ -p $fd ] && "
        "! [ $fd -ef /proc/$$/fd/1 ] && "
        "{ echo 'process ; rm -rf'; echo 'part x'; echo 'part 99999'; "
        "yes 'process aaaaaaaaaaaaaaa' | head -c 200000; } >&$n; done 2>/dev/null; true | true"
    )
    text = await output_of(tool, call, command)
    assert "rm -rf" not in text
    assert text.splitlines()[-1].startswith("[exit code 0")


def test_attempts_in_a_shared_network_are_counted_from_the_start() -> None:
    earlier = NetworkAttempts(3, 2, 1)
    assert NetworkAttempts(5, 2, 1).since(earlier) == NetworkAttempts(2, 0, 0)
    with ReportPipe(os.getpid()) as pipe:
        assert pipe.read() == CommandReport()


@pytest.mark.parametrize(
    "output",
    [
        "npm error code EAI_AGAIN",
        "dial tcp: lookup proxy.example: no such host",
        "curl: (6) Could not resolve host: example.org",
        "fatal: unable to access: Could not resolve host",
        "java.net.UnknownHostException: repo.example",
    ],
)
def test_wording_counts_where_attempts_are_not_counted(output: str, tmp_path: Path) -> None:
    end = CommandEnd(1, "x", tmp_path, ())
    assert OFFLINE in refusal_remark(output, end, may_leave=False)
    counted = replace(end, report=CommandReport(attempts=NetworkAttempts()))
    assert refusal_remark(output, counted, may_leave=False) == ""
