"""Long tasks in real processes, with a fake model that acts according to the files."""

import asyncio
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gateway.control.client import ControlClient
from tests import postgres_server
from tests.fakes.model import ModelServer
from tests.fakes.model_script import Call, ReplyScript
from tests.fork_server import PipedProcess, start_piped

FEATURES = ["log in", "log out", "sign up"]


def checklist(passing: list[bool]) -> str:
    pairs = zip(FEATURES, passing, strict=True)
    features = [{"description": d, "steps": ["try it"], "passes": p} for d, p in pairs]
    return json.dumps({"features": features})


class LongTaskModel:
    """Fake model that plans three features and completes one in each session, or two with a team.

    A team member writes a file for its feature after `member_s` seconds.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.says = "done for now"
        self.works = True
        self.member_s = 0.0

    def __call__(self, body: Mapping[str, Any]) -> ReplyScript:
        last = body["messages"][-1]
        question = next(str(m["content"]) for m in body["messages"][::-1] if m["role"] == "user")
        if question.startswith("Build: "):
            return self._builds(question.split()[1], done=last["role"] == "tool")
        if last["role"] == "tool":
            return self._tests() if "(sub-agent" in str(last) else ReplyScript(text=self.says)
        if "Work as a team" in question:
            return self._sends_out()
        if "Prepare a long task" in str(last["content"]):
            return self._writes([False] * len(FEATURES))
        passing = [feature["passes"] for feature in self.features()]
        if not self.works or all(passing):
            return ReplyScript(text=self.says)
        passing[passing.index(False)] = True
        return self._writes(passing)

    def _sends_out(self) -> ReplyScript:
        missing = [n for n, feature in enumerate(self.features()) if not feature["passes"]]
        arguments = (
            {"description": "build", "prompt": f"Build: {n} and nothing else"} for n in missing[:2]
        )
        return ReplyScript(tool_calls=tuple(Call("task", argument) for argument in arguments))

    def _builds(self, feature: str, *, done: bool) -> ReplyScript:
        if done:
            return ReplyScript(text="built")
        built = Call("write_file", {"path": f"{feature}.txt", "content": "built"})
        return ReplyScript(tool_calls=(built,), latency_s=self.member_s)

    def _tests(self) -> ReplyScript:
        built = [(self.folder / f"{n}.txt").exists() for n in range(len(FEATURES))]
        return self._writes(built)

    def features(self) -> list[dict[str, Any]]:
        content = json.loads((self.folder / "feature_list.json").read_text())
        return list(content["features"])

    def _writes(self, passing: list[bool]) -> ReplyScript:
        files = {
            "feature_list.json": checklist(passing),
            "PROGRESS.md": f"{sum(passing)} pass. " + "x" * 3000,
            ".kore/session_plan.md": "# Understanding",
        }
        reads = [Call("read_file", {"path": n}) for n in files if (self.folder / n).exists()]
        writes = [Call("write_file", {"path": n, "content": c}) for n, c in files.items()]
        return ReplyScript(tool_calls=(*reads, *writes))


class Place:
    def __init__(self, folder: Path, server: ModelServer) -> None:
        self.work = folder / "work"
        self.work.mkdir()
        self.mind = server.mind = LongTaskModel(self.work)
        self.server = server
        self.home = folder / "home"
        self.home.mkdir()
        entry = {"model_name": "default", "model": "openai/x", "api_base": server.base_url}
        (self.home / "config.json").write_text(
            json.dumps({"model_list": [{**entry, "api_key": "k"}], "http": {"port": 0}})
        )

    def trust(self) -> None:
        """Mark the folder as trusted."""
        config = self.home / "config.json"
        trusted = {"security": {"trusted_folders": [str(self.work)]}}
        config.write_text(json.dumps(json.loads(config.read_text()) | trusted))

    def plan(self, *, done: bool = False) -> None:
        """Write the files that `--init` creates; with `done`, all features pass."""
        (self.work / "feature_list.json").write_text(checklist([done] * len(FEATURES)))
        (self.work / "PROGRESS.md").write_text("Nothing yet.")

    async def start(self, *words: str) -> PipedProcess:
        """Start `kore agent` in the folder."""
        return await self._kore("agent", "-y", "--cwd", str(self.work), *words)

    async def serve(self) -> PipedProcess:
        """Start a `kore gateway`, and return once its control socket answers."""
        process = await self._kore("gateway", "--quiet")
        async with asyncio.timeout(30):
            while await ControlClient.connect(self.home / "kore.sock") is None:
                assert process.returncode is None, "the gateway ended by itself"
                await self.server.news(0.02)
        return process

    async def wait_for_request(self, process: PipedProcess) -> None:
        """Wait until the process has sent a request to the model."""
        before = len(self.server.requests)
        async with asyncio.timeout(30):
            while len(self.server.requests) == before and process.returncode is None:
                await self.server.news(1)

    async def until_requests(self, number: int) -> None:
        """Wait until the model has received this number of requests."""
        async with asyncio.timeout(30):
            while len(self.server.requests) < number:
                await self.server.news(1)

    async def _kore(self, *words: str) -> PipedProcess:
        clean = {"PATH": os.environ["PATH"], "HOME": str(self.home.parent)}
        # Commands in this test are our own, so they need no sandbox on any machine.
        environ = {"KORE_HOME": str(self.home), "KORE_SECURITY_SANDBOX": "none"}
        environ |= postgres_server.environ_of(self.home)
        return await start_piped(words, cwd=self.home.parent, env=clean | environ)

    async def run(self, *words: str) -> tuple[int, str]:
        """Run `kore agent`, and return its exit code and its stderr."""
        process = await self.start(*words)
        async with asyncio.timeout(60):
            _, err = await process.communicate()
        assert process.returncode is not None
        return process.returncode, err.decode()

    async def run_verb(self, *words: str) -> tuple[int, str]:
        """Run another verb, and return its exit code and its stdout."""
        process = await self._kore(*words)
        async with asyncio.timeout(60):
            out, _ = await process.communicate()
        assert process.returncode is not None
        return process.returncode, out.decode()

    def first_messages(self) -> list[str]:
        """Return the first message of each session."""
        bodies = [request.body["messages"] for request in self.server.requests]
        return [str(m[-1]["content"]) for m in bodies if m[-1]["role"] == "user"]
