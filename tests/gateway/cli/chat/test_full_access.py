"""`kore agent --full-access`: everything runs without a sandbox and without questions.

Only the flag enables it.
"""

import asyncio
import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from tests import postgres_server
from tests.fakes.model import ModelServer
from tests.fakes.model_script import Call, ReplyScript, reply_with_call
from tests.fakes.web import WebSite
from tests.fork_server import PipedProcess, start_piped
from tests.gateway.cli.chat.long_task_scene import Place
from tests.gateway.cli.kore import kore_here
from tests.gateway.stored import read_file

PROGRAMS = ("sh", "bash", "git", "python3", "curl", "rm", "mkdir", "cat", "ls", "echo", "env", "id")


class Terminal:
    """Git repository on a machine without bubblewrap."""

    def __init__(self, place: Place, folder: Path) -> None:
        self.place, self.work, self.home = place, place.work, place.home
        self.programs = folder / "bin"
        self.programs.mkdir()
        for name in PROGRAMS:
            program = sys.executable if name == "python3" else shutil.which(name)
            if program is not None:
                (self.programs / name).symlink_to(program)

    async def run(self, *words: str, **environ: str) -> tuple[int, str, str]:
        """Run `kore agent -m go`, and return its exit code, stdout and stderr."""
        process = await self.start("agent", "--cwd", str(self.work), "-m", "go", *words, **environ)
        async with asyncio.timeout(60):
            out, err = await process.communicate()
        assert process.returncode is not None
        return process.returncode, out.decode(), err.decode()

    async def start(self, *words: str, **environ: str) -> PipedProcess:
        clean = {"PATH": str(self.programs), "HOME": str(self.work.parent)}
        own = {"KORE_HOME": str(self.home), **postgres_server.environ_of(self.home), **environ}
        return await start_piped(words, cwd=self.work, env=clean | own)

    def results(self) -> list[str]:
        """Return the results of the calls, as the model reads them."""
        messages = self.place.server.requests[-1].body["messages"]
        return [str(message["content"]) for message in messages if message["role"] == "tool"]

    def system(self) -> str:
        return str(self.place.server.requests[0].body["messages"][0]["content"])

    def audit(self) -> list[dict[str, Any]]:
        lines = "".join(file.read_text() for file in sorted((self.home / "audit").glob("*.jsonl")))
        return [json.loads(line) for line in lines.splitlines()]


@pytest.fixture
def terminal(place: Place, tmp_path: Path) -> Terminal:
    return Terminal(place, tmp_path)


def commands(*lines: str) -> list[ReplyScript]:
    return [reply_with_call("exec", command=line) for line in lines]


@pytest.mark.programs("git")
async def test_commands_run_without_sandbox_or_approval(
    terminal: Terminal, model_server: ModelServer, web_site: WebSite, tmp_path: Path
) -> None:
    web_site.page("/page", "hello from the loopback")
    outside = tmp_path / "elsewhere"
    model_server.script(
        *commands(
            "git init -q . && mkdir -p build && echo one > build/x && echo one > kept.txt",
            "git -c user.name=a -c user.email=a@b add kept.txt"
            " && git -c user.name=a -c user.email=a@b commit -qm one",
            "echo two > kept.txt",
            "git reset --hard",
            "rm -rf build",
            "python3 - <<'PY'\nprint(6 * 7)\nopen('made.txt', 'w').write('made')\nPY",
            f"curl -sS {web_site.url}/page",
            '"$SHELL_OF_MINE" -c "echo by a variable"',
            f"mkdir {outside} && echo out > {outside}/there.txt",
            "echo secret=$OPENAI_API_KEY lib=$MY_LIB",
        ),
        reply_with_call("write_file", path=str(outside / "too.txt"), content="written"),
        reply_with_call("write_file", path="AGENTS.md", content="Use tabs."),
        "done",
    )
    code, out, err = await terminal.run(
        "--full-access", SHELL_OF_MINE="bash", OPENAI_API_KEY="k-1", MY_LIB="/opt/lib"
    )
    results = terminal.results()
    assert (code, out.strip()) == (0, "done"), err
    assert len(results) == 12
    assert not [result for result in results if "Not allowed" in result or "exit code 1" in result]
    assert (terminal.work / "kept.txt").read_text() == "one\n"
    assert not (terminal.work / "build").exists()
    assert (terminal.work / "made.txt").read_text() == "made"
    assert "42" in results[5]
    assert "hello from the loopback" in results[6]
    assert "by a variable" in results[7]
    assert (outside / "there.txt").read_text() == "out\n"
    assert (outside / "too.txt").read_text() == "written"
    assert (terminal.work / "AGENTS.md").read_text() == "Use tabs."
    # Variables for other programs are passed on, but keys are not.
    assert "secret= lib=/opt/lib" in results[9]
    assert "Full access: everything runs as" in err


async def test_model_and_audit_log_are_informed(
    terminal: Terminal, model_server: ModelServer
) -> None:
    model_server.script(*commands("rm -f x"), "done")
    await terminal.run("--full-access", "--output-format", "json")
    assert "Full access: commands and file tools run without a sandbox" in terminal.system()
    assert "permission mode full access" in str(model_server.requests[0].body["messages"][-1])
    begun, call = terminal.audit()
    assert (begun["tool"], begun["allowed"]) == ("full_access", True)
    assert (call["tool"], call["allowed"]) == ("exec", True)
    assert "(full-access)" in call["reason"]


async def test_full_access_ends_with_the_run(terminal: Terminal, model_server: ModelServer) -> None:
    """Full access is not stored, neither in the session nor elsewhere: the next run asks again."""
    model_server.script(*commands("rm -f x"), "done")
    assert (await terminal.run("--full-access"))[0] == 0
    model_server.script(*commands("rm -rf /nowhere-at-all"), "done")
    await terminal.run("-c", "--sandbox", "none")
    assert "Not allowed" in terminal.results()[-1]
    assert "Full access" not in str(model_server.requests[-1].body["messages"])[:6_000]
    config = (terminal.home / "config.json").read_text()
    assert "full" not in config


async def test_taint_of_full_access_applies_to_the_next_run(
    terminal: Terminal, model_server: ModelServer
) -> None:
    """Its commands may have read anything, so the session is tainted once rules apply again."""
    model_server.script(*commands("echo strangers"), "done")
    await terminal.run("--full-access")
    model_server.script(*commands("ls"), "done")
    await terminal.run("-c", "-y", "--sandbox", "none")
    assert "Not allowed" in terminal.results()[-1]


async def test_subagent_has_full_access(terminal: Terminal, model_server: ModelServer) -> None:
    order = {"description": "tidy", "prompt": "tidy up", "agent": "general"}

    def mind(body: Any) -> ReplyScript:
        messages = body["messages"]
        if messages[-1]["role"] == "tool":
            return ReplyScript(text="done")
        if "tidy up" in str(messages[-1]["content"]):
            return reply_with_call("exec", command="rm -rf build; echo tidied > proof.txt")
        return ReplyScript(tool_calls=(Call("task", order),))

    model_server.mind = mind
    code, _, err = await terminal.run("--full-access")
    assert code == 0, err
    assert (terminal.work / "proof.txt").exists(), str(model_server.requests[-1].body)


async def test_disallowed_tool_stays_disallowed(
    terminal: Terminal, model_server: ModelServer
) -> None:
    model_server.script(*commands("echo x > proof.txt"), "done")
    await terminal.run("--full-access", "--disallowed-tools", "exec")
    assert "--disallowed-tools" in terminal.results()[-1]
    assert not (terminal.work / "proof.txt").exists()


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("agent", "-y", "--full-access", "-m", "x"), "not allowed with"),
        (("agent", "--permission-mode", "plan", "--full-access", "-m", "x"), "not allowed with"),
        (("agent", "--sandbox", "bwrap", "--full-access", "-m", "x"), "cannot be combined"),
        (("gateway", "--full-access"), "a gateway also answers other people"),
    ],
)
def test_conflicting_options_are_rejected(
    words: tuple[str, ...], expected: str, tmp_path: Path
) -> None:
    done = kore_here(*words, home=tmp_path / "home")
    assert done.returncode == 2
    assert expected in done.stderr


async def test_running_kore_keeps_its_rules(terminal: Terminal, model_server: ModelServer) -> None:
    gateway = await terminal.place.serve()
    try:
        code, _, err = await terminal.run("--full-access")
    finally:
        gateway.terminate()
        await gateway.wait()
    assert code == 2
    assert "Kore is already running and keeps its own rules" in err
    assert model_server.requests == []


async def test_project_and_environment_cannot_grant_full_access(
    terminal: Terminal, model_server: ModelServer
) -> None:
    """A repository tries every way to grant it; attempts that are not settings are rejected or
    ignored.
    """
    config = {"security": {"full_access": True}}
    (terminal.work / "config.json").write_text(json.dumps(config))
    (terminal.work / ".env").write_text(
        "KORE_FULL_ACCESS=1\nKORE_SECURITY_FULL_ACCESS=true\nKORE_AGENT_FULL_ACCESS=1\n"
    )
    (terminal.work / "AGENTS.md").write_text("--full-access\nfull_access: true\n")
    model_server.script(*commands("rm -rf build"), "done")
    code, _, err = await terminal.run("--sandbox", "none")
    assert "Not allowed" in terminal.results()[-1], (code, err)
    assert "Full access:" not in err
    assert not [item for item in terminal.audit() if item["tool"] == "full_access"]


async def test_variable_cannot_grant_full_access(
    terminal: Terminal, model_server: ModelServer
) -> None:
    code, _, err = await terminal.run(KORE_SECURITY_FULL_ACCESS="1")
    assert (code, "KORE_SECURITY_FULL_ACCESS" in err) == (2, True), err
    model_server.script(*commands("rm -rf build"), "done")
    await terminal.run("--sandbox", "none", KORE_FULL_ACCESS="1")
    assert "Not allowed" in terminal.results()[-1]


async def test_configuration_key_is_rejected(terminal: Terminal, model_server: ModelServer) -> None:
    file = terminal.home / "config.json"
    for section in ("security", "agent", "tools"):
        values = json.loads(file.read_text())
        broken = values | {section: {**values.get(section, {}), "full_access": True}}
        (terminal.home / "other.json").write_text(json.dumps(broken))
        code, _, err = await terminal.run("--config", str(terminal.home / "other.json"))
        assert (code, "full_access" in err) == (2, True), err
    assert model_server.requests == []


async def test_text_of_the_conversation_cannot_grant_full_access(
    terminal: Terminal, model_server: ModelServer
) -> None:
    for text in ("/full-access", "/mode full-access", "/mode full access", "--full-access"):
        model_server.script(*commands("rm -rf build"), "done")
        again = ("-c",) if terminal.audit() else ()
        process = await terminal.start(
            "agent", "--sandbox", "none", "--cwd", str(terminal.work), *again, "-m", text
        )
        await process.communicate()
        model_server.forget_script()
    model_server.script(*commands("rm -rf build"), "done")
    await terminal.run("-c", "--sandbox", "none")
    assert "Not allowed" in terminal.results()[-1]
    assert not [item for item in terminal.audit() if item["tool"] == "full_access"]


async def test_stored_token_is_invalid_in_another_process(
    terminal: Terminal, model_server: ModelServer
) -> None:
    """A killed run leaves its message behind; the process that resumes it applies the rules."""
    model_server.script(ReplyScript(text="never", latency_s=3600.0))
    process = await terminal.start(
        "agent", "--full-access", "--cwd", str(terminal.work), "-m", "go"
    )
    async with asyncio.timeout(30):
        while not model_server.requests:
            await model_server.news(1)
    process.kill()
    await process.wait()
    stored = str(read_file(terminal.home / "kore.db", "inbox", "payload"))
    assert "full_access" in stored, "or this test shows nothing"
    token = stored.split('"full_access"')[1].split('"')[1]
    assert len(token) == 32
    model_server.script(*commands("rm -rf build"), "done")
    await terminal.run("--sandbox", "none")
    assert "Not allowed" in terminal.results()[-1]
    assert not [item for item in terminal.audit() if "(full-access)" in item["reason"]]
