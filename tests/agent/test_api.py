"""`import kore`: the two calls of the library, and the examples in the README."""

import asyncio
import os
import re
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

import kore
from agent.providers.scripted import ScriptedProvider
from agent.security.policy.base import PermissionMode
from agent.turn.tool_catalog import built_in_tools
from agent.types import user
from tests.agent.props import call, calls
from tests.fakes.model import ModelServer

ROOT = Path(__file__).parents[2]
EXAMPLES = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)


@pytest.mark.parametrize("example", EXAMPLES)
def test_readme_example_runs(example: str, tmp_path: Path) -> None:
    """Run without a key, so that the offline echo provider answers."""
    environ = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "KORE_HOME": str(tmp_path)}
    ran = subprocess.run(
        [sys.executable, "-c", example], cwd=tmp_path, env=environ, capture_output=True, text=True
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    assert "stand-in" in ran.stdout


def test_readme_and_library_page_show_the_same_call() -> None:
    assert "kore.run(" in "\n".join(EXAMPLES)
    page = (ROOT / "docs" / "library.md").read_text("utf-8")
    assert "kore.run(" in page
    assert "kore.stream(" in page


async def test_run_answers_in_one_call(tmp_path: Path) -> None:
    result = await kore.run("hello", model="offline/echo", workspace=tmp_path)
    assert result.success
    assert result.text.endswith("hello")


async def test_stream_shows_the_turn_as_it_happens(tmp_path: Path) -> None:
    model = ScriptedProvider(["hello you"])
    text = ""
    async for event in kore.stream("hi", model=model, workspace=tmp_path):
        if isinstance(event, kore.events.TextDelta):
            text += event.text
    assert text == "hello you"
    assert isinstance(event, kore.events.Done)
    assert model.closed


async def test_leaving_a_stream_early_closes_its_model(tmp_path: Path) -> None:
    model = ScriptedProvider(["hello you"])
    async with aclosing(kore.stream("hi", model=model, workspace=tmp_path)) as stream:
        await anext(stream)
    assert model.closed


async def test_custom_history_continues_a_session(tmp_path: Path) -> None:
    history = kore.JsonlHistory(tmp_path / "chats")
    for n in range(2):
        model = ScriptedProvider([f"answer {n}"])
        await kore.run(
            f"question {n}", model=model, session="talk", history=history, workspace=tmp_path
        )
    texts = [message.text for message in model.requests[0].messages]
    assert texts == ["question 0", "answer 0", "question 1"]


async def test_named_session_is_stored_in_the_default_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KORE_HOME", str(tmp_path / "home"))
    for text in ("one", "two"):
        model = ScriptedProvider(["fine"])
        async for _ in kore.stream(text, model=model, session="talk", workspace=tmp_path):
            pass
    assert [message.text for message in model.requests[0].messages] == ["one", "fine", "two"]
    assert (tmp_path / "home" / "chats" / "talk.jsonl").exists()


async def test_turn_without_a_session_leaves_no_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KORE_HOME", str(tmp_path / "home"))
    await kore.run("hi", model="offline/echo", workspace=tmp_path)
    assert list(tmp_path.iterdir()) == []


async def test_error_that_ended_the_turn_is_raised(tmp_path: Path) -> None:
    with pytest.raises(kore.ProviderError, match="the script ended"):
        await kore.run("hi", model=ScriptedProvider([]), workspace=tmp_path)
    with pytest.raises(kore.ConfigError, match="unknown vendor or model"):
        await kore.run("hi", model="nobody/nothing", workspace=tmp_path)


async def test_registered_provider_is_selected_by_name(tmp_path: Path) -> None:
    kore.register_provider(
        "my-vendor", lambda config: ScriptedProvider([f"I am {config.model_id}"])
    )
    result = await kore.run("hi", model="my-vendor/seven", workspace=tmp_path)
    assert result.text == "I am seven"


async def test_permissions_accept_a_custom_policy(tmp_path: Path) -> None:
    class ReadOnly:
        def decide(self, request: kore.ToolRequest) -> kore.Decision:
            allowed = request.effect == "read"
            return kore.Decision("allow" if allowed else "deny", "only reading", "read-only")

    result = await kore.run(
        '!tool write_file {"path": "a.txt", "content": "x"}',
        model="offline/echo",
        approve=kore.Permissions(ReadOnly()),
        workspace=tmp_path,
    )
    assert "only reading" in result.text
    assert not (tmp_path / "a.txt").exists()


def test_messages_are_built_from_exported_classes() -> None:
    assert user("hi") == kore.Message("user", (kore.Text("hi"),))


EDIT = '!tool edit_file {"path": "a.txt", "old_string": "old", "new_string": "new"}'


@pytest.mark.parametrize("answer", ["once", "deny"])
@pytest.mark.parametrize("plain", [True, False])
async def test_function_can_approve_calls(tmp_path: Path, answer: kore.Answer, plain: bool) -> None:
    (tmp_path / "a.txt").write_text("old")
    results: list[tuple[kore.ApprovalRequest, bool]] = []

    def ask(request: kore.ApprovalRequest) -> kore.Answer:
        results.append((request, threading.current_thread() is threading.main_thread()))
        return answer

    async def ask_later(request: kore.ApprovalRequest) -> kore.Answer:
        return ask(request)

    approve = ask if plain else ask_later
    await kore.run(EDIT, model="offline/echo", workspace=tmp_path, approve=approve)
    assert (tmp_path / "a.txt").read_text() == ("new" if answer == "once" else "old")
    ((request, in_main),) = results
    assert request.diff is not None
    assert "+new" in request.diff
    # A synchronous function may wait for a person while the event loop continues.
    assert in_main is not plain


@pytest.mark.parametrize(("mode", "text"), [("plan", "old"), ("ask", "old"), ("auto", "new")])
async def test_mode_decides_about_approval(tmp_path: Path, mode: PermissionMode, text: str) -> None:
    (tmp_path / "a.txt").write_text("old")
    await kore.run(EDIT, model="offline/echo", workspace=tmp_path, mode=mode)
    assert (tmp_path / "a.txt").read_text() == text


async def test_run_overrides_single_settings(tmp_path: Path) -> None:
    model = ScriptedProvider([calls(call("list_dir")), "done"])
    settings = kore.AgentSettings(temperature=0.5, max_iterations=9, effort="none")
    result = await kore.run(
        "go", model=model, workspace=tmp_path, settings=settings, max_iterations=1, effort="high"
    )
    assert result.stopped == "max_iterations"
    (request,) = model.requests
    assert (request.temperature, request.options["reasoning_effort"]) == (0.5, "high")


async def test_model_or_profile_can_be_chosen_per_turn(tmp_path: Path) -> None:
    kore.register_provider(
        "mine", lambda config: ScriptedProvider([f"I am {config.model_id}."] * 2)
    )
    models = kore.Models("mine/large", profiles={"quick": "mine/small"})
    agent = kore.Agent(models, workspace=tmp_path)
    texts = [(await agent.run("who?", model=name)).text for name in (None, "quick", "mine/other")]
    assert texts == ["I am large.", "I am small.", "I am other."]
    await agent.aclose()


async def test_instructions_are_in_the_prompt(tmp_path: Path) -> None:
    model = ScriptedProvider(["arr"])
    agent = kore.Agent(model, instructions="You are a pirate. See README.md", workspace=tmp_path)
    await agent.run("hello")
    assert "You are a pirate. See README.md" in model.requests[0].system


@pytest.mark.parametrize(
    ("names", "expected"),
    [([], []), (["read_file", "bash"], ["read_file", "exec"]), (("Grep",), ["grep"])],
)
async def test_listed_built_in_tools_are_offered(
    tmp_path: Path, names: Sequence[str], expected: list[str]
) -> None:
    model = ScriptedProvider(["done"])
    await kore.Agent(model, builtin_tools=names, workspace=tmp_path).run("hello")
    assert [tool.name for tool in model.requests[0].tools] == expected


def test_all_built_in_tools_can_be_named(tmp_path: Path) -> None:
    agent = kore.Agent("offline/echo", workspace=tmp_path, builtin_tools=built_in_tools())
    assert all(agent.toolbox.get(name).name == name for name in built_in_tools())
    names = [tool.name for tool in agent.toolbox.specs()]
    hidden = ("apply_patch", "lsp_edit")
    assert names == [name for name in built_in_tools() if name not in hidden]
    in_project = [tool.name for tool in agent.toolbox.specs(in_project=True)]
    assert in_project == names
    plain = kore.Agent("offline/echo", workspace=tmp_path).toolbox
    assert not {"lsp", "outline"} & {tool.name for tool in plain.specs()}
    assert {"lsp", "outline"} < {tool.name for tool in plain.specs(in_project=True)}


def test_lsp_with_a_writing_tool_enables_rename(tmp_path: Path) -> None:
    agent = kore.Agent("offline/echo", workspace=tmp_path, builtin_tools=["lsp", "edit_file"])
    assert agent.toolbox.get("lsp_edit").name == "lsp_edit"
    agent = kore.Agent("offline/echo", workspace=tmp_path, builtin_tools=["lsp", "read_file"])
    assert agent.toolbox.find("lsp_edit") is None


@pytest.mark.parametrize(
    ("names", "sentence"),
    [
        (["fly"], "there is no built-in tool 'fly'; available: read_file, "),
        ("exec", "builtin_tools: expected a list of names, found 'exec'"),
    ],
)
def test_unknown_built_in_tool_is_rejected(names: Any, sentence: str) -> None:
    with pytest.raises(kore.ConfigError) as caught:
        kore.Agent("offline/echo", builtin_tools=names)
    assert str(caught.value).startswith(sentence)


def test_run_sync_works_without_an_event_loop(tmp_path: Path) -> None:
    assert kore.run_sync("hi", model="offline/echo", workspace=tmp_path).success
    agent = kore.Agent("offline/echo", workspace=tmp_path)
    texts = [agent.run_sync("again").text for _ in range(2)]
    assert texts[0] == texts[1]


async def test_run_sync_leaves_no_connection_open(tmp_path: Path) -> None:
    program = (
        "import kore\n"
        "agent = kore.Agent(model='openai/fake')\n"
        "print(agent.run_sync('one').text, agent.run_sync('two').text)\n"
    )
    async with ModelServer() as model:
        environ = {"HOME": str(tmp_path), "OPENAI_API_KEY": "k", "OPENAI_BASE_URL": model.url}
        run = await asyncio.to_thread(
            subprocess.run, [sys.executable, "-W", "default", "-c", program], cwd=tmp_path,
            env={"PATH": os.environ["PATH"], **environ}, capture_output=True, text=True, check=True,
        )  # fmt: skip
    assert run.stdout == "echo: one echo: two\n"
    assert run.stderr == ""


async def test_run_sync_in_an_event_loop_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="running event loop"):
        kore.run_sync("hi", model="offline/echo", workspace=tmp_path)


async def test_sessions_are_listed_newest_first(tmp_path: Path) -> None:
    history = kore.JsonlHistory(tmp_path)
    assert await history.list() == []
    for n, name in enumerate(("old", "new", "v1.2")):
        await history.append(name, [user("hi")])
        os.utime(tmp_path / f"{name}.jsonl", (n, n))
    assert await history.list() == ["v1.2", "new", "old"]


def test_providers_include_built_in_and_registered_names() -> None:
    assert {"openai", "anthropic", "ollama", "offline"} <= set(kore.list_providers())
