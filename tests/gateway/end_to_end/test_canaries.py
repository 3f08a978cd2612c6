"""A canary in every secret during a whole run, and no canary in any output."""

import base64
import json
import os
import shutil
import stat
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import quote

import pytest
from aiohttp import web

from agent.security.redaction import MARK
from tests.fakes import faults
from tests.fakes.bot_api import BotApi
from tests.fakes.model import ModelServer
from tests.fakes.model_script import Call, ReplyScript, refusal
from tests.gateway.end_to_end.gateway_process import OWNER, GatewayProcess

pytestmark = pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")

TOKEN = "123456:AAcanary-Bot_token0123456789"
MODEL_KEY = "sk-Canary/Model+key0123456789=="
ENVIRON = {
    "OPENAI_API_KEY": "sk-canary-OpenAI-0123456789",
    "DEEPSEEK_API_KEY": "sk-canary-DeepSeek-0123456789",
    "MY_MODEL_KEY": MODEL_KEY,
    "MY_PASSWORD": "pass-Canary-0123456789",
}
CANARIES = {
    "token": TOKEN,
    "token without its number": TOKEN.partition(":")[2],
    "webhook": "canary-Webhook-0123456789",
    "secrets.json": "canary-SecretsFile-0123456789",
    "server": "canary-McpServer-0123456789",
    **ENVIRON,
}
LEAK = "notes.txt"
EVERYTHING = " ".join(CANARIES.values())


class Recorder:
    """Recorder of requests to the Bot API: the body, and the path without the bot's own token."""

    def __init__(self, api: BotApi) -> None:
        self.requests: list[str] = []
        api.app.middlewares.append(self._record)

    @web.middleware
    async def _record(
        self,
        request: web.Request,
        handler: Callable[[web.Request], Awaitable[web.StreamResponse]],
    ) -> web.StreamResponse:
        path = request.raw_path.replace(f"/bot{TOKEN}/", "/", 1)
        self.requests.append(f"{path} {(await request.read()).decode(errors='replace')}")
        return await handler(request)


class Canaries(GatewayProcess):
    """Gateway in which every secret is a canary."""

    def _environ(self) -> Mapping[str, str]:
        return {**super()._environ(), **ENVIRON}


def _sections(model: ModelServer) -> dict[str, dict[str, object]]:
    return {
        "telegram": {"webhook_secret": CANARIES["webhook"]},
        "mcp_servers": {
            "one": {"command": "x", "env": {"K_TOKEN": CANARIES["server"]}, "enabled": False},
            "two": {"url": "https://me:${MY_PASSWORD}@host/x", "enabled": False},
        },
    }


@asynccontextmanager
async def _canaries(folder: Path) -> AsyncIterator[tuple[Canaries, Recorder]]:
    api, model = BotApi(TOKEN), ModelServer(api_key=MODEL_KEY)
    recorder = Recorder(api)
    async with api, model:
        process = Canaries(folder, api, model)
        process.configure(_sections(model))
        config = json.loads(process.config.read_text())
        for entry in config["model_list"]:
            entry["api_key"] = "${MY_MODEL_KEY}"
        process.config.write_text(json.dumps(config))
        secrets = process.home / "secrets.json"
        secrets.write_text(json.dumps({"UNUSED": CANARIES["secrets.json"]}))
        secrets.chmod(0o600)
        async with process:
            yield process, recorder


def _spellings(value: str) -> set[str]:
    texts = {value, quote(value), quote(value, safe=""), json.dumps(value)[1:-1]}
    for before in ("", "x", "xy"):
        whole = base64.b64encode(f"{before}{value}".encode()).decode()
        # Cut both ends, which also encode bits of the surrounding text.
        core = whole[4:-4]
        texts |= {core, core.replace("+", "-").replace("/", "_")}
    return texts


def _canaries_in(text: str) -> list[str]:
    return [
        f"{name} as {spelled}"
        for name, value in CANARIES.items()
        for spelled in _spellings(value)
        if spelled in text
    ]


def _leaky_file(workspace: Path) -> None:
    """Write a file of the user's with all secrets in several spellings."""
    lines = [EVERYTHING, quote(EVERYTHING), quote(EVERYTHING, safe=""), json.dumps([EVERYTHING])]
    for before in ("", "x", "xy"):
        lines.append(base64.b64encode(f"{before}{EVERYTHING}".encode()).decode())
        for value in CANARIES.values():
            for encode in (base64.b64encode, base64.urlsafe_b64encode):
                lines.append(encode(f"{before}{value}".encode()).decode())
    (workspace / LEAK).write_text("\n".join(lines))


async def _chat(gateway: Canaries) -> None:
    """Provoke leaks through a model and a platform in a chat."""
    model, api = gateway.model, gateway.api
    home = gateway.home
    script = ReplyScript(
        text=f"my secrets are {EVERYTHING}", reasoning=EVERYTHING, pieces=40, chunk_delay_s=0.03
    )
    model.script(script)
    await gateway.answers_to(OWNER, "hello")
    calls = [
        Call("read_file", {"path": str(home / "config.json")}),
        Call("read_file", {"path": str(home / "config.good.json")}),
        Call("read_file", {"path": str(home / "secrets.json")}),
        Call("read_file", {"path": "/proc/self/environ"}),
        Call("read_file", {"path": LEAK}),
        Call("grep", {"pattern": "canary", "path": "."}),
        Call("read_file", {"path": EVERYTHING}),
        Call("write_file", {"path": "mine.txt", "content": EVERYTHING}),
        Call("exec", {"command": f"echo {TOKEN} > mine.txt"}),
        Call("edit_file", {"path": LEAK, "old_string": TOKEN, "new_string": EVERYTHING}),
        Call("no_such_tool", {"x": EVERYTHING}),
        Call("write_file", EVERYTHING),
    ]
    for call in calls:
        model.script(ReplyScript(tool_calls=(call,), text=f"now {TOKEN}"), "done")
        await gateway.answers_to(OWNER, "go on")
    model.script(refusal(400, f"this key is wrong: {MODEL_KEY}, see {EVERYTHING}"))
    await gateway.answers_to(OWNER, "and an error")
    url = f"https://api.telegram.org/bot{TOKEN}/sendMessage"
    api.fail("sendMessage", faults.status(400, description=f"Bad Request: {url}"))
    await gateway.answers_to(OWNER, "and one of the platform")
    await gateway.answers_to(OWNER, "/status")


async def _run_commands(gateway: Canaries) -> str:
    """Run the command line and shell commands, and return everything printed."""
    model, printed = gateway.model, ""
    # Long enough for the output to be saved in a file, although only part of each line is shown.
    (gateway.workspace / "many.txt").write_text(f"{EVERYTHING}\n" * 1_000)
    commands = [
        "env; cat /proc/self/environ /proc/$PPID/environ; ps axeww",
        f"cat {gateway.config} {gateway.home}/*.db {LEAK}; cat many.txt many.txt; exit 3",
    ]
    for command in commands:
        model.script(ReplyScript(tool_calls=(Call("exec", {"command": command}),)), "done")
        style = ("--output-format", "stream-json") if command == commands[0] else ()
        ran = await gateway.kore("agent", "-y", *style, "-m", "run it")
        printed += ran.out + ran.err
    verbs: list[tuple[str, ...]] = [
        ("status", "--json"),
        ("doctor",),
        ("config", "show"),
        ("audit", "tail", "--json"),
        ("backup", str(gateway.home / "copy.db")),
        ("sessions", "show", EVERYTHING),
    ]
    listed = await gateway.kore("sessions", "list", "--json")
    printed += listed.out
    sessions = json.loads(listed.out)
    verbs.append(("sessions", "show", sessions[0]["id"]))
    verbs.append(("sessions", "export", sessions[-1]["id"]))
    for verb in verbs:
        ran = await gateway.kore(*verb)
        printed += ran.out + ran.err
    return printed


def _files(home: Path) -> list[Path]:
    """Return all files that Kore wrote, without configuration and without the test's own files."""
    own = {
        home / "config.json",
        home / "config.good.json",
        home / "secrets.json",
        home / "workspace" / "many.txt",
    }
    own.add(home / "workspace" / LEAK)
    return [path for path in sorted(home.rglob("*")) if path.is_file() and path not in own]


def _open_to_others(home: Path) -> list[str]:
    """Return Kore's own files that others may read; the workspace belongs to the user."""
    paths = [home, *home.rglob("*")]
    ours = [
        path
        for path in paths
        if "workspace" not in path.relative_to(home).parts or "spill" in path.parts
    ]
    return [
        f"{path} {stat.filemode(path.lstat().st_mode)}"
        for path in ours
        # Git reads it as the user of a command.
        if path.lstat().st_mode & 0o077 and path.name != ".gitignore"
    ]


@pytest.fixture
def umask() -> None:
    """Set the usual umask, which makes files world-readable."""
    os.umask(0o022)


async def test_canaries_never_leave_the_process(tmp_path: Path, umask: None) -> None:
    async with _canaries(tmp_path) as (gateway, recorder):
        _leaky_file(gateway.workspace)
        await _chat(gateway)
        printed = await _run_commands(gateway)
        assert _open_to_others(gateway.home) == []
        requests = gateway.model.requests
    places = {
        "command line": printed,
        "gateway output": gateway.output(),
        "bot": "\n".join(recorder.requests),
        "model": "\n".join(item.raw.decode() for item in requests),
        "model headers": repr([_without_key(item.headers) for item in requests]),
        **{str(path): path.read_bytes().decode("latin-1") for path in _files(gateway.home)},
    }
    assert len(requests) > 20
    for place in ("bot", "model", "command line"):
        assert MARK in places[place] or json.dumps(MARK)[1:-1] in places[place]
    assert not any(name.endswith("mine.txt") for name in places)
    assert any("/spill/" in name for name in places)
    assert any(name.endswith("kore.log") for name in places)
    leaks = [f"{place}: {leak}" for place, text in places.items() for leak in _canaries_in(text)]
    assert leaks == []
    assert _open_to_others(gateway.home) == []


def _without_key(headers: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in headers.items() if name != "Authorization"}
