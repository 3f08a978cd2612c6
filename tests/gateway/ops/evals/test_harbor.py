"""Harbor adapter with the real program, in a folder instead of a container."""

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.fakes.harbor import AgentContext, LocalEnvironment, installed
from tests.fakes.model import ModelServer
from tests.fakes.model_script import Break, Call, ReplyScript
from tests.gateway.cli.kore import ROOT

INSTRUCTION = "Write 'hi' to out.txt; don't ask."
ALLOWED = {
    "trajectory": {
        *("schema_version", "session_id", "trajectory_id", "agent", "steps", "notes"),
        *("final_metrics", "continued_trajectory_ref", "extra", "subagent_trajectories"),
    },
    "step": {
        *("step_id", "timestamp", "source", "model_name", "reasoning_effort", "message"),
        *("reasoning_content", "tool_calls", "observation", "metrics", "extra"),
        *("llm_call_count", "is_copied_context"),
    },
    "call": {"tool_call_id", "function_name", "arguments", "extra"},
    "result": {"source_call_id", "content", "subagent_trajectory_ref", "extra"},
    "metrics": {"prompt_tokens", "completion_tokens", "cached_tokens", "cost_usd", "extra"},
    "final": {
        *("total_prompt_tokens", "total_completion_tokens", "total_cached_tokens"),
        *("total_cost_usd", "total_steps", "extra"),
    },
}
OF_AGENTS = {"model_name", "reasoning_effort", "reasoning_content", "tool_calls", "metrics"}


def check_rules(document: dict[str, Any]) -> None:
    """Check the requirements of ATIF 1.7: strict keys, numbered steps, calls with results."""
    assert document.keys() <= ALLOWED["trajectory"]
    assert document["schema_version"] == "ATIF-v1.7"
    assert {"name", "version"} <= document["agent"].keys()
    assert document["agent"].keys() <= {"name", "version", "model_name", "extra"}
    assert document["final_metrics"].keys() <= ALLOWED["final"]
    assert [step["step_id"] for step in document["steps"]] == list(
        range(1, len(document["steps"]) + 1)
    )
    assert document["steps"]
    for step in document["steps"]:
        assert step.keys() <= ALLOWED["step"]
        assert step["source"] in ("system", "user", "agent")
        assert isinstance(step["message"], str)
        if step["source"] != "agent":
            assert not step.keys() & OF_AGENTS
        calls = step.get("tool_calls", [])
        assert all(call.keys() <= ALLOWED["call"] for call in calls)
        assert all(isinstance(call["arguments"], dict) for call in calls)
        results = step.get("observation", {"results": []})["results"]
        assert all(result.keys() <= ALLOWED["result"] for result in results)
        assert {result["source_call_id"] for result in results} <= {
            call["tool_call_id"] for call in calls
        }
        assert step.get("metrics", {}).keys() <= ALLOWED["metrics"]
    parts = document.get("subagent_trajectories", [])
    assert len({part["trajectory_id"] for part in parts}) == len(parts)
    for part in parts:
        check_rules(part)


@pytest.fixture
def harbor() -> Iterator[SimpleNamespace]:
    with installed(ROOT / "evals" / "adapters") as modules:
        yield modules


class Trial:
    """A task with a folder as its container, and the agent that works in it."""

    def __init__(self, folder: Path, modules: SimpleNamespace, server: ModelServer) -> None:
        self.logs, self.task, home = folder / "logs", folder / "task", folder / ".kore"
        for place in (self.logs, self.task, home):
            place.mkdir()
        entry = {"model": "openai/fake", "api_base": server.base_url}
        models = [{"model_name": "fake", **entry, "api_key": "${OPENAI_API_KEY}"}]
        config = {"model_list": models, "profiles": {"quick": "fake", "task": "fake"}}
        (home / "config.json").write_text(json.dumps(config))
        programs = str(Path(sys.executable).parent)
        environ = {"PATH": f"{programs}:{os.environ['PATH']}", "HOME": str(folder)}
        paths = {"/logs/agent": self.logs}
        self.environment = LocalEnvironment(self.task, paths, environ)
        environ["OPENAI_API_KEY"] = "sk-1"
        self.agent = modules.agent.Kore(self.logs, model_name="fake", max_iter=9)

    async def run(self) -> dict[str, Any]:
        await self.agent.run(INSTRUCTION, self.environment, AgentContext())
        return self.convert(AgentContext())

    def convert(self, context: AgentContext) -> dict[str, Any]:
        self.agent.populate_context_post_run(context)
        document: dict[str, Any] = json.loads((self.logs / "trajectory.json").read_text())
        assert context.n_input_tokens == document["final_metrics"]["total_prompt_tokens"]
        return document


@pytest.mark.programs("bwrap")
async def test_run_in_a_container_leaves_a_trajectory(
    tmp_path: Path, harbor: SimpleNamespace, model_server: ModelServer
) -> None:
    looks = (Call("list_dir", {"path": "."}), Call("read_file", {"path": "no.txt"}))
    runs = (Call("exec", {"command": "echo hi > out.txt; cat out.txt"}), Call("exec", "{broken"))
    model_server.script(
        ReplyScript(text="Let me look.", reasoning="First look.", tool_calls=looks),
        ReplyScript(text="half a reply", breaks=Break("eof", 2)),
        ReplyScript(text="Now run.", tool_calls=runs),
        ReplyScript(text="All done."),
    )
    trial = Trial(tmp_path, harbor, model_server)
    document = await trial.run()
    check_rules(document)
    assert (trial.task / "out.txt").read_text() == "hi\n"
    result, first, second, last = document["steps"]
    assert (result["source"], result["message"]) == ("user", INSTRUCTION)
    assert (first["message"], first["reasoning_content"]) == ("Let me look.", "First look.")
    assert [call["function_name"] for call in first["tool_calls"]] == ["list_dir", "read_file"]
    failed = first["observation"]["results"][1]
    assert failed["extra"]["is_error"]
    assert "does not exist" in failed["content"]
    # The trajectory omits the reply that was cut off and requested again.
    assert second["message"] == "Now run."
    assert second["observation"]["results"][0]["content"].startswith("hi")
    assert last["message"] == "All done."
    assert document["session_id"]
    assert document["extra"]["success"] is True
    totals = document["final_metrics"]
    spent = [step["metrics"]["prompt_tokens"] for step in document["steps"][1:]]
    assert totals["total_prompt_tokens"] == sum(spent) > 0
    assert totals["total_steps"] == 4
    (command,) = trial.environment.commands
    assert "--max-iter 9" in command
    assert "sk-" not in command


async def test_subagent_has_its_own_trajectory(
    tmp_path: Path, harbor: SimpleNamespace, model_server: ModelServer
) -> None:
    result = {"description": "look", "prompt": "List it.", "subagent_type": "explore"}
    model_server.script(
        ReplyScript(tool_calls=(Call("task", result),)),
        ReplyScript(tool_calls=(Call("list_dir", {"path": "."}),)),
        ReplyScript(text="There are none."),
        ReplyScript(text="No files."),
    )
    document = await Trial(tmp_path, harbor, model_server).run()
    check_rules(document)
    (part,) = document["subagent_trajectories"]
    names = [c["function_name"] for step in part["steps"] for c in step.get("tool_calls", ())]
    assert names == ["list_dir"]


async def test_killed_run_has_a_trajectory(
    tmp_path: Path, harbor: SimpleNamespace, model_server: ModelServer
) -> None:
    model_server.script(
        ReplyScript(text="Look.", tool_calls=(Call("list_dir", {"path": "."}),)),
        ReplyScript(text="Done."),
    )
    trial = Trial(tmp_path, harbor, model_server)
    whole = await trial.run()
    stream = trial.logs / "kore.jsonl"
    text = stream.read_text()
    lengths = range(0, text.index('"type":"done"'), 997)
    for length in lengths:
        stream.write_text(text[:length])
        document = trial.convert(AgentContext())
        check_rules(document)
        assert len(document["steps"]) <= len(whole["steps"])
    assert len(lengths) > 1


async def test_only_the_key_of_the_model_vendor_enters_the_container(
    tmp_path: Path, harbor: SimpleNamespace
) -> None:
    keys = {"GOOGLE_API_KEY": "g", "OPENAI_API_KEY": "o", "OPENAI_BASE_URL": "http://x"}
    kore_agent = harbor.agent.Kore(tmp_path, model_name="openai/gpt-5", extra_env=keys)
    assert kore_agent._keys() == {"OPENAI_API_KEY": "o", "OPENAI_BASE_URL": "http://x"}
    kore_agent = harbor.agent.Kore(tmp_path, model_name="gemini/pro", extra_env=keys)
    assert kore_agent._keys() == {"GOOGLE_API_KEY": "g"}


async def test_package_is_installed_from_a_wheel(tmp_path: Path, harbor: SimpleNamespace) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "uv").write_text('#!/bin/sh\necho "$@" > "$HOME/asked"\n')
    (programs / "kore").write_text("#!/bin/sh\necho kore 0.1.0\n")
    for program in programs.iterdir():
        program.chmod(0o755)
    environ = {"PATH": f"{programs}:{os.environ['PATH']}", "HOME": str(tmp_path)}
    environment = LocalEnvironment(tmp_path, {}, environ)
    wheel = tmp_path / "kore_assistant-0.1.0-py3-none-any.whl"
    with pytest.raises(ValueError, match="wheel="):
        await harbor.agent.Kore(tmp_path, model_name="a/b", wheel=wheel).setup(environment)
    wheel.write_bytes(b"")
    kore_agent = harbor.agent.Kore(tmp_path, model_name="a/b", wheel=wheel)
    await kore_agent.setup(environment)
    assert kore_agent.version() == "0.1.0"
    ((source, target),) = environment.uploads
    assert (source, target) == (str(wheel), f"/installed-agent/{wheel.name}")
    assert (tmp_path / "asked").read_text().split()[:2] == ["tool", "install"]
    assert target in (tmp_path / "asked").read_text()
