"""SWE-bench adapter from instances to patches, with the real program and repositories."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from gateway.ops.evals.repository import build_repository
from tests.fakes.model import ModelServer
from tests.fakes.model_script import Call, ReplyScript
from tests.gateway.cli.kore import ROOT

ADAPTER = ROOT / "evals" / "adapters" / "kore_swebench.py"
FIX = {
    "path": "tokenbucket/bucket.py",
    "old_string": "        self._updated = now\n",
    "new_string": """\
        self._updated = now
        self._tokens = min(self.burst, self._tokens)
""",
}


def git(folder: Path, *words: str) -> str:
    return subprocess.run(
        ["git", *words], cwd=folder, check=True, capture_output=True, text=True
    ).stdout.strip()


class Benchmark:
    """A remote with one repository, two instances of it, and a home for Kore."""

    def __init__(self, folder: Path, server: ModelServer) -> None:
        self.folder = folder
        self.origin = folder / "remote" / "acme" / "tokenbucket.git"
        self.origin.mkdir(parents=True)
        build_repository(ROOT / "evals" / "tokenbucket" / "repository", self.origin)
        home = folder / ".kore"
        home.mkdir()
        entry = {"model": "openai/fake", "api_base": server.base_url, "api_key": "k"}
        config = {"model_list": [{"model_name": "fake", **entry}]}
        (home / "config.json").write_text(json.dumps(config))
        self.predictions = folder / "predictions.jsonl"

    def instance(self, name: str, commit: str, problem: str) -> dict[str, str]:
        base = git(self.origin, "rev-parse", commit)
        known = {"instance_id": name, "repo": "acme/tokenbucket", "base_commit": base}
        return {**known, "problem_statement": problem}

    async def run(self, instances: list[dict[str, str]], *words: str, code: int = 0) -> str:
        (self.folder / "instances.jsonl").write_text("\n".join(map(json.dumps, instances)))
        programs = Path(sys.executable).parent
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, ADAPTER, "instances.jsonl", "predictions.jsonl", "--model", "fake"),
            *("--remote", f"{self.folder}/remote/{{repo}}.git", "--logs", "logs", *words),
            cwd=self.folder,
            env={"PATH": f"{programs}:{os.environ['PATH']}", "HOME": str(self.folder)},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        out, _ = await process.communicate()
        assert process.returncode == code, out.decode()
        return out.decode()

    def read(self) -> list[dict[str, str]]:
        return [json.loads(line) for line in self.predictions.read_text().splitlines()]


def solver(body: Mapping[str, Any]) -> ReplyScript:
    """Fix the bucket and add a file; for the other instance only answer with text."""
    text = json.dumps(body["messages"])
    if "overflow" not in text or body["messages"][-1]["role"] == "tool":
        return ReplyScript(text="Done.")
    new = {"path": "NEWS.md", "content": "Fixed: überlauf\n"}
    log = {"command": "git log --oneline --all | wc -l > log.txt"}
    read = {"path": FIX["path"]}
    calls = (Call("read_file", read), Call("edit_file", FIX), Call("write_file", new))
    return ReplyScript(tool_calls=(*calls, Call("exec", log)))


@pytest.mark.programs("git")
async def test_instances_become_applicable_predictions(
    tmp_path: Path, model_server: ModelServer
) -> None:
    model_server.mind = solver
    benchmark = Benchmark(tmp_path, model_server)
    fixed = benchmark.instance("acme__tokenbucket-1", "HEAD~1", "The bucket has an overflow.")
    idle = benchmark.instance("acme__tokenbucket-2", "HEAD", "Nothing to do.")
    out = await benchmark.run([fixed, idle], "-j", "2", "--", "--max-iter", "5")
    assert "acme__tokenbucket-2: 0 changed lines" in out
    result = {item["instance_id"]: item for item in benchmark.read()}
    assert result.keys() == {"acme__tokenbucket-1", "acme__tokenbucket-2"}
    assert {item["model_name_or_path"] for item in result.values()} == {"kore-fake"}
    assert result["acme__tokenbucket-2"]["model_patch"] == ""
    # The patch applies to its base commit, new files included.
    tree = tmp_path / "tree"
    git(tmp_path, "clone", "-q", str(benchmark.origin), str(tree))
    git(tree, "reset", "-q", "--hard", fixed["base_commit"])
    (tmp_path / "patch").write_text(result["acme__tokenbucket-1"]["model_patch"])
    git(tree, "apply", "--index", str(tmp_path / "patch"))
    assert git(tree, "diff", "--cached", "--name-only").splitlines() == [
        "NEWS.md",
        "log.txt",
        "tokenbucket/bucket.py",
    ]
    assert (tree / "NEWS.md").read_text() == "Fixed: überlauf\n"
    # The model saw a history of this one commit.
    assert (tree / "log.txt").read_text().strip() == "1"
    text = json.dumps(model_server.requests[0].body)
    assert "Nobody can be asked" in text
    log = (tmp_path / "logs" / "acme__tokenbucket-1.jsonl").read_text()
    assert '"type":"done"' in log


@pytest.mark.programs("git")
async def test_interrupted_run_is_resumed(tmp_path: Path, model_server: ModelServer) -> None:
    model_server.mind = solver
    benchmark = Benchmark(tmp_path, model_server)
    first = benchmark.instance("a", "HEAD", "Nothing to do.")
    await benchmark.run([first])
    count = len(model_server.requests)
    await benchmark.run([first, benchmark.instance("b", "HEAD", "Nothing to do.")])
    assert [item["instance_id"] for item in benchmark.read()] == ["a", "b"]
    assert len(model_server.requests) == 2 * count


@pytest.mark.slow
async def test_changes_before_the_timeout_are_in_the_patch(
    tmp_path: Path, model_server: ModelServer
) -> None:
    edit = (Call("read_file", {"path": FIX["path"]}), Call("edit_file", FIX))
    model_server.script(
        ReplyScript(tool_calls=edit), ReplyScript(text="never", waits_at=0, latency_s=0)
    )
    benchmark = Benchmark(tmp_path, model_server)
    instance = benchmark.instance("a", "HEAD", "The bucket has an overflow.")
    await benchmark.run([instance], "--timeout-s", "8")
    (result,) = benchmark.read()
    assert "min(self.burst" in result["model_patch"]


@pytest.mark.programs("git")
async def test_unstartable_turn_is_not_a_prediction(
    tmp_path: Path, model_server: ModelServer
) -> None:
    benchmark = Benchmark(tmp_path, model_server)
    instance = benchmark.instance("a", "HEAD", "x")
    out = await benchmark.run([instance], "--model", "nobody/x", code=1)
    assert "unknown vendor or model" in out
    assert not benchmark.predictions.exists()
