"""Editor that talks to `kore acp` through the client of the official library.

Each line from Kore is checked against the schema.
"""

import asyncio
import base64
import json
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from gateway.control.client import ControlClient
from gateway.core.errors import ConnectionLost
from gateway.core.tasks import task_scope
from tests import fork_server, postgres_server
from tests.fakes.acp_lines import LineCheck
from tests.fakes.model import ModelServer

acp = pytest.importorskip("acp", reason="agent-client-protocol is not installed (extra acp)")
KEY = "sk-editor-key"
PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJg"
    "gg=="
)
_LIMIT = 50 * 2**20
_ENDS = ("completed", "failed")


class Editor:
    """Editor side of the protocol; `answer` is the person's answer to each question."""

    def __init__(self) -> None:
        self.updates: list[Any] = []
        self.questions: list[Any] = []
        self.answer = "once"
        # `answers` come before `answer`. A question sets `wait_at_question` and stays unanswered.
        self.answers: list[str] = []
        self.wait_at_question: asyncio.Event | None = None
        # Awaited while a question is open.
        self.before_answer: Callable[[], Awaitable[object]] | None = None
        self.on_update: Callable[[Any], object] = lambda update: None
        # Unsaved texts by path, and the requests for them.
        self.buffers: dict[str, str] = {}
        self.refuses_writes = False
        self.file_requests: list[tuple[str, str]] = []
        self.elicitations: list[Any] = []
        self.elicited: dict[str, Any] = {"action": "cancel"}
        self.on_save: Callable[[str], str] = lambda text: text

    def on_connect(self, connection: Any) -> None: ...

    async def session_update(self, session_id: str, update: Any, **_: Any) -> None:
        self.updates.append(update)
        self.on_update(update)

    async def request_permission(
        self, session_id: str, tool_call: Any, options: list[Any], **_: Any
    ) -> Any:
        self.questions.append((tool_call, [option.option_id for option in options]))
        if self.wait_at_question is not None:
            self.wait_at_question.set()
            await asyncio.Event().wait()
        if self.before_answer is not None:
            await self.before_answer()
        answer = self.answers.pop(0) if self.answers else self.answer
        outcome: dict[str, Any] = {"outcome": "cancelled"}
        if answer:
            outcome = {"outcome": "selected", "optionId": answer}
        return acp.RequestPermissionResponse.model_validate({"outcome": outcome})

    async def create_elicitation(self, message: str, mode: Any, **_: Any) -> Any:
        self.elicitations.append((message, mode))
        kinds = {
            "accept": acp.schema.AcceptElicitationResponse,
            "decline": acp.schema.DeclineElicitationResponse,
            "cancel": acp.schema.CancelElicitationResponse,
        }
        return kinds[self.elicited["action"]].model_validate(self.elicited)

    async def read_text_file(self, session_id: str, path: str, **_: Any) -> Any:
        self.file_requests.append(("read", path))
        text = self.buffers.get(path)
        if text is None:
            # Normalize line endings, as editors do.
            text = Path(path).read_text().replace("\r\n", "\n")
        return acp.ReadTextFileResponse(content=text)

    async def write_text_file(self, session_id: str, path: str, content: str, **_: Any) -> None:
        self.file_requests.append(("write", path))
        if self.refuses_writes:
            raise acp.RequestError(-32603, "the person said no")
        self.buffers.pop(path, None)
        file = Path(path)
        draft = file.with_suffix(".editor")
        draft.write_text(self.on_save(content))
        draft.replace(file)

    def text(self) -> str:
        """Return the text of the model's messages."""
        chunks = (
            update for update in self.updates if update.session_update == "agent_message_chunk"
        )
        return "".join(chunk.content.text for chunk in chunks)

    def calls(self) -> list[tuple[str, str | None]]:
        """Return the ids and states of the calls, in order."""
        kinds = ("tool_call", "tool_call_update")
        calls = (update for update in self.updates if update.session_update in kinds)
        return [(call.tool_call_id, call.status) for call in calls]

    def unended_calls(self) -> list[str]:
        """Return the ids of the calls shown as pending or in progress."""
        return [id_ for id_, state in dict(self.calls()).items() if state not in _ENDS]


class EditorSetup:
    """An editor with a project and Kore as its agent."""

    def __init__(self, folder: Path, model: ModelServer) -> None:
        self.home, self.project, self.model = folder / "home", folder / "project", model
        self.home.mkdir()
        self.project.mkdir()
        (self.project / "a.py").write_text("total = 1\n")
        entry = {"model_name": "default", "model": "openai/fake", "api_base": f"{model.url}/v1"}
        config = {"model_list": [{**entry, "api_key": KEY}]}
        (self.home / "config.json").write_text(json.dumps(config))

    def set_config(self, **values: Any) -> None:
        file = self.home / "config.json"
        file.write_text(json.dumps({**json.loads(file.read_text()), **values}))

    def add_model(self, name: str, model: str) -> None:
        file = self.home / "config.json"
        config = json.loads(file.read_text())
        config["model_list"].append({**config["model_list"][0], "model_name": name, "model": model})
        file.write_text(json.dumps(config))

    def command(self, *options: str) -> tuple[str, ...]:
        return (sys.executable, "-m", "gateway", "acp", *options)

    def environ(self) -> dict[str, str]:
        own = {"HOME": str(self.home), "KORE_HOME": str(self.home)}
        return {"PATH": os.environ["PATH"], **own, **postgres_server.environ_of(self.home)}

    @asynccontextmanager
    async def open(
        self, *options: str, capabilities: dict[str, Any] | None = None
    ) -> AsyncIterator[tuple[Editor, Any, Any]]:
        """Open a connection; the block fails if a received line violates the schema."""
        editor, check = Editor(), LineCheck()
        process = await fork_server.start_talking(
            ["acp", *options], cwd=self.project, env=self.environ(), stderr=2, limit=_LIMIT
        )
        reader = asyncio.StreamReader(_LIMIT)
        async with task_scope() as start:
            pump = start(_pump(process.stdout, reader, check))
            connection = acp.connect_to_agent(
                editor,
                process.stdin,
                reader,
                use_unstable_protocol=True,
                observers=[check.note_event],
            )
            try:
                offered = acp.schema.ClientCapabilities.model_validate(capabilities or {})
                await connection.initialize(protocol_version=1, client_capabilities=offered)
                yield editor, connection, process
            finally:
                await connection.close()
                process.stdin.close()
                await process.wait()
                await pump
        assert not (faults := check.faults()), faults

    @asynccontextmanager
    async def gateway(self) -> AsyncIterator[Callable[[], Awaitable[None]]]:
        """Run a gateway that owns the data; yield a function that kills it."""
        self.set_config(http={"port": 0})
        process = fork_server.start(["gateway"], cwd=self.home, env=self.environ())

        async def kill() -> None:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()

        try:
            async with asyncio.timeout(60):
                while not await self._is_owner(process.pid):
                    await asyncio.sleep(0.05)
            yield kill
        finally:
            await kill()

    async def _is_owner(self, pid: int) -> bool:
        with suppress(ConnectionLost):
            client = await ControlClient.connect(self.home / "kore.sock")
            return client is not None and (await client.status())["pid"] == pid
        return False

    async def ask(self, connection: Any, session: str, *blocks: Any) -> str:
        response = await connection.prompt(session_id=session, prompt=list(blocks))
        return str(response.stop_reason)

    def question(self) -> str:
        return str(self.model.requests[-1].body["messages"][-1]["content"])


async def _pump(
    source: asyncio.StreamReader, target: asyncio.StreamReader, check: LineCheck
) -> None:
    while line := await source.readline():
        check.lines.append(line)
        target.feed_data(line)
    target.feed_eof()


def words(text: str) -> Any:
    return acp.text_block(text)
