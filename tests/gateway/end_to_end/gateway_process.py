"""A real `kore gateway` in its own process, between fake servers.

    async with GatewayProcess(folder, api, model) as gateway:
        await gateway.answers_to(7, "hi")
        assert api.answers(7) == ["echo: hi"]

Its output and its files must contain no traceback and no secret.
"""

import asyncio
import json
import os
import shutil
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from gateway.control.client import ControlClient
from gateway.core.errors import ConnectionLost
from gateway.store.port import Row
from tests import fork_server, postgres_server
from tests.fakes.bot_api import BotApi
from tests.fakes.bot_chats import Effect
from tests.fakes.model import ModelServer
from tests.fork_server import ForkedProcess
from tests.gateway import stored

ROOT = Path(__file__).parents[3]
KEY = "sk-stand-in-0123456789abcdef"
OWNER = 1
TIMEOUT_S = 60.0
_POLL_INTERVAL_S = 0.01


@dataclass(frozen=True, slots=True)
class ProcessOutput:
    """Exit code and output of a `kore` run next to the gateway."""

    code: int
    out: str
    err: str


class GatewayProcess:
    """Controller of the gateway of a folder: start, stop, kill and restart.

    `sections` are merged into the configuration, key by key. Entering the context starts the
    gateway; leaving it stops it with SIGTERM and requires exit code 0. A gateway that is not
    `forked` imports everything itself.
    """

    def __init__(
        self,
        folder: Path,
        api: BotApi,
        model: ModelServer,
        sections: Mapping[str, Mapping[str, Any]] | None = None,
        *,
        forked: bool = True,
        verb: str = "gateway",
        words: Sequence[str] = (),
        runtime_dir: Path | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        self.api, self.model = api, model
        self._words = [verb, *words]
        self._runtime_dir = runtime_dir
        self._more_environ = environ if environ is not None else {}
        self.forked = forked
        self.home = folder / "home"
        self.workspace = self.home / "workspace"
        self.config = self.home / "config.json"
        # The SQLite file; with PostgreSQL, the path identifies the database used instead.
        self.database = self.home / "kore.db"
        # Outside of the folder: the output must reach the test even when the folder is full.
        self._output = folder.with_name(f"{folder.name}.out")
        self._process: ForkedProcess | asyncio.subprocess.Process | None = None
        self._tracebacks = 0
        self.home.mkdir(mode=0o700)
        self.configure(sections or {})

    def configure(self, sections: Mapping[str, Mapping[str, Any]]) -> None:
        """Rewrite the configuration; settings that can change at runtime soon take effect."""
        config = {**_config(self.api, self.model), **store_section(self.database)}
        for name, values in sections.items():
            config[name] = {**config.get(name, {}), **values}
        self.config.write_text(json.dumps(config))
        self.config.chmod(0o600)

    def use_empty_database(self) -> None:
        """On PostgreSQL, switch to an empty database, because a restore requires one."""
        if postgres_server.engine() == "postgres":
            self.database = self.home / "empty.db"
            config = json.loads(self.config.read_text())
            self.config.write_text(json.dumps({**config, **store_section(self.database)}))

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        try:
            if self.runs and kind is None:
                await self.stop()
        finally:
            if self.runs:
                await self.kill()
        if kind is None:
            self.check_clean()

    @property
    def runs(self) -> bool:
        return self._process is not None and self._process.returncode is None

    async def launch(self) -> None:
        """Start the process without waiting for anything."""
        assert not self.runs
        with self._output.open("ab") as output:
            if self.forked:
                self._process = fork_server.start(
                    self._words, cwd=self.home, env=self._environ(), stdout=output, stderr=output
                )
                return
            self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "gateway", *self._words),
                cwd=self.home,
                env=self._environ(),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )

    async def start(self) -> None:
        """Start the process, and wait until it polls."""
        polls = self.api.polls_done
        await self.launch()
        await self.until(lambda: self.api.polling or self.api.polls_done > polls)

    async def stop(self) -> None:
        """Stop the process with SIGTERM; it must exit with 0."""
        self.signal(signal.SIGTERM)
        code = await self.ended()
        assert code == 0, f"a clean stop ended with {code}:\n{self.log_text()}"

    async def kill(self) -> None:
        self.signal(signal.SIGKILL)
        await self.ended()

    def signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    async def ended(self) -> int:
        """Return the exit code once the connections are closed too."""
        assert self._process is not None
        code = await asyncio.wait_for(self._process.wait(), TIMEOUT_S)
        await self.api.wait_for(lambda: not self.api.polling)
        return code

    async def exit_code(self) -> int:
        """Return the exit code while another gateway polls."""
        assert self._process is not None
        return await asyncio.wait_for(self._process.wait(), TIMEOUT_S)

    async def until(self, reached: Callable[[], object]) -> None:
        """Wait for the condition for as long as the process runs."""
        deadline = time.monotonic() + TIMEOUT_S
        while not reached():
            assert self.runs, f"the gateway has exited:\n{self.log_text()}"
            assert time.monotonic() < deadline, (
                f"timed out; {self.api.summary()}; {self.model.summary()}\n{self.log_text()}"
            )
            await self.api.news(_POLL_INTERVAL_S)

    async def idle(self) -> None:
        """Wait until all messages of people are answered and the answers are sent."""
        deadline = time.monotonic() + TIMEOUT_S
        while self.api.pending_updates or await self._is_busy():
            assert self.runs, f"the gateway has exited:\n{self.log_text()}"
            assert time.monotonic() < deadline, f"never idle; {self.api.summary()}"
            await self.api.news(_POLL_INTERVAL_S)

    async def posted(self) -> None:
        """Wait until all outgoing messages are sent and recorded; a turn may still run."""
        deadline = time.monotonic() + TIMEOUT_S
        while (await self.status())["routes_with_mail"]:
            assert time.monotonic() < deadline, f"never posted; {self.api.summary()}"
            await self.api.news(_POLL_INTERVAL_S)

    async def answers_to(self, chat: int, text: str, **more: Any) -> list[str]:
        """Send a message as a person, and return the bot's messages in the chat once it is idle."""
        await self.api.user_says(chat, text, **more)
        await self.idle()
        return self.api.answers(chat)

    def effects(self, chat: int) -> list[Effect]:
        """Return the bot's actions in this chat, in order."""
        return [effect for effect in self.api.sent if effect.chat_id == chat]

    def methods(self, chat: int) -> list[str]:
        """Return the methods of the bot's actions, without typing and with repetitions merged."""
        names = [e.method for e in self.effects(chat) if e.method != "sendChatAction"]
        return [name for n, name in enumerate(names) if n == 0 or names[n - 1] != name]

    async def status(self) -> Mapping[str, Any]:
        client = await ControlClient.connect(self.home / "kore.sock")
        assert client is not None, f"nobody listens on the control socket:\n{self.log_text()}"
        return await client.status()

    async def channel(self) -> Mapping[str, Any]:
        """Return the state of the bot's channel, as in `kore status`."""
        (channel,) = (await self.status())["channels"].values()
        assert isinstance(channel, dict)
        return channel

    async def until_channel(self, state: str) -> Mapping[str, Any]:
        """Wait until the channel has this state."""
        deadline = time.monotonic() + TIMEOUT_S
        while (channel := await self.channel())["state"] != state:
            assert time.monotonic() < deadline, f"{channel}\n{self.log_text()}"
            await asyncio.sleep(_POLL_INTERVAL_S)
        return channel

    async def stored(self, table: str, *columns: str, **where: Any) -> list[Row]:
        """Return current rows of its database (see `tests.gateway.stored.read`)."""
        if postgres_server.engine() == "postgres":
            return stored.read_file(self.database, table, *columns, **where)
        # The file has a single owner, so read a backup of it.
        copy = self.home / "stored.db"
        ran = await self.kore("backup", copy)
        assert ran.code == 0, ran.err
        rows = stored.read_file(copy, table, *columns, **where)
        copy.unlink()
        return rows

    async def kore(self, *words: str | Path) -> ProcessOutput:
        """Run another `kore` in the same home."""
        process = await asyncio.to_thread(
            fork_server.run, words, cwd=self.home, env=self._environ()
        )
        ran = ProcessOutput(process.returncode, process.stdout, process.stderr)
        _check(ran.out + ran.err, self.api)
        return ran

    def output(self) -> str:
        """Return the output so far, across restarts."""
        return self._output.read_text() if self._output.exists() else ""

    def log_text(self) -> str:
        """Return the output and the log files so far."""
        logs = sorted((self.home / "logs").glob("*"))
        return "\n".join([self.output(), *(file.read_text() for file in logs)])

    def check_clean(self) -> None:
        """Raise if a traceback or secret was written since the last check.

        Findings of an earlier test do not count against the next.
        """
        text = self.log_text()
        seen, self._tracebacks = self._tracebacks, text.count("Traceback")
        assert self._tracebacks <= seen, text
        _check_secrets(text, self.api)

    async def _is_busy(self) -> bool:
        try:
            status = await self.status()
        except ConnectionLost:
            return True
        return bool(
            status["lanes_busy"] or status["messages_waiting"] or status["routes_with_mail"]
        )

    def _environ(self) -> Mapping[str, str]:
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home.parent),
            "KORE_HOME": str(self.home),
            "PYTHONPATH": str(ROOT),
            "PYTHONUTF8": "1",
            **self._more_environ,
            # Without bubblewrap, root runs commands only if the configuration allows it.
            **({"XDG_RUNTIME_DIR": str(self._runtime_dir)} if self._runtime_dir else {}),
            **({} if shutil.which("bwrap") else {"KORE_SECURITY_SANDBOX": "none"}),
        }


def store_section(database: Path) -> dict[str, Any]:
    """Return the `store` section, which is empty for the SQLite file at its default path."""
    if postgres_server.engine() == "sqlite":
        return {}
    return {"store": {"url": postgres_server.database_of(database)}}


def _config(api: BotApi, model: ModelServer) -> dict[str, Any]:
    entry = {
        "model_name": "stand-in",
        "model": "openai/fake",
        "api_base": model.base_url,
        "api_key": KEY,
    }
    return {
        "agent": {"model": "stand-in"},
        "model_list": [entry, {**entry, "model_name": "other", "model": "openai/other"}],
        "telegram": {
            "enabled": True,
            "token": api.token,
            "base_url": api.base_url,
            "allow_from": ["*"],
            "rate_limits": "none",
            # Tests count a single answer for each message.
            "queue": "queue",
        },
        "access": {"owner": f"telegram:{OWNER}", "roles": {"telegram": "general"}},
        "http": {"port": 0},
    }


def _check(text: str, api: BotApi) -> None:
    assert "Traceback" not in text, text
    _check_secrets(text, api)


def _check_secrets(text: str, api: BotApi) -> None:
    assert KEY not in text, text
    assert api.token not in text, text
    assert api.token.partition(":")[2] not in text, text
