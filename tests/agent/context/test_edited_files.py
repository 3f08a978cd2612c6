"""Recently edited files are attached after a compaction, with their current content."""

from dataclasses import replace
from pathlib import Path

from agent import events
from agent.agent import Agent
from agent.context.compaction.marker import MarkerStore
from agent.context.compaction.summarizer import Summary
from agent.providers.base import ModelRequest
from agent.providers.scripted import ScriptedProvider
from agent.run.history import JsonlHistory
from agent.settings import AgentSettings
from agent.tools.runner import Permissions
from agent.types import Message
from tests.agent.props import FREE, call, calls, is_summary_request

WINDOW = 32_000


def agent_in(
    tmp_path: Path, permissions: Permissions = FREE, settings: AgentSettings | None = None
) -> tuple[Agent, ScriptedProvider, JsonlHistory]:
    """Return an agent that writes the file named by the first word of a message, then answers."""

    def reply(request: ModelRequest) -> Message | str:
        if is_summary_request(request):
            return "Files were written."
        last = request.messages[-1]
        name = last.text.split()[0]
        if last.role == "user" and name.endswith(".txt"):
            content = f"first of {name}\n" + "line\n" * 20
            return calls(call("write_file", f"w{len(model.requests)}", path=name, content=content))
        return "Read. " * 60

    folder = tmp_path / "work"
    folder.mkdir(exist_ok=True)
    model = ScriptedProvider([reply] * 500)
    history = JsonlHistory(tmp_path / "history")
    agent = Agent(model, history=history, approve=permissions, workspace=folder, settings=settings)
    agent.models._open[model.name] = replace(agent.models.open(), context_tokens=WINDOW)
    return agent, model, history


async def talk_until_compacted(agent: Agent) -> None:
    """Send long messages until the conversation is compacted."""
    for _ in range(60):
        seen = [e async for e in agent.stream("And then? " + "word " * 1_500, session="s")]
        if any(isinstance(event, events.Compacted) for event in seen):
            return
    raise AssertionError("there was no compaction")


async def stored_summary(history: JsonlHistory) -> Summary:
    assert isinstance(history, MarkerStore)
    summary = (await history.mark("s")).summary
    assert summary is not None
    return summary


async def test_last_five_edited_files_are_attached_with_current_content(tmp_path: Path) -> None:
    agent, model, history = agent_in(tmp_path)
    for n in range(7):
        await agent.run(f"file{n}.txt please", session="s")
    (tmp_path / "work" / "file4.txt").write_text("changed by hand\n")
    (tmp_path / "work" / "file3.txt").unlink()
    await talk_until_compacted(agent)
    summary = await stored_summary(history)
    assert [file.path for file in summary.files] == [f"file{n}.txt" for n in (2, 4, 5, 6)]
    front = str(model.requests[-1].messages[0].content[0])
    assert "changed by hand" in front
    assert "first of file6.txt" in front
    assert "first of file1.txt" not in front
    # The messages about these files are gone, so the current files are attached once more.
    (tmp_path / "work" / "file6.txt").write_text("and again\n")
    await talk_until_compacted(agent)
    front = str(model.requests[-1].messages[0].content[0])
    assert "and again" in front
    assert "changed by hand" in front
    assert front.count("== file6.txt") == 1


async def test_middle_of_long_files_is_omitted(tmp_path: Path) -> None:
    agent, _, history = agent_in(tmp_path)
    await agent.run("a.txt please", session="s")
    (tmp_path / "work" / "a.txt").write_text("begin\n" + "middle\n" * 9_000 + "end\n")
    await talk_until_compacted(agent)
    (file,) = (await stored_summary(history)).files
    assert "begin" in file.text
    assert "left out" in file.text
    assert len(file.text) < WINDOW


async def test_file_that_became_unreadable_is_not_attached(tmp_path: Path) -> None:
    agent, _, history = agent_in(tmp_path)
    await agent.run("a.txt please", session="s")
    await agent.run("b.txt please", session="s")
    secret = tmp_path / "secret.txt"
    secret.write_text("not for the model")
    (tmp_path / "work" / "a.txt").unlink()
    (tmp_path / "work" / "a.txt").symlink_to(secret)
    await talk_until_compacted(agent)
    summary = await stored_summary(history)
    assert [file.path for file in summary.files] == ["b.txt"]
    assert "not for the model" not in summary.front


async def test_failed_edit_attaches_nothing(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "seen.txt").write_text("was there")
    agent, _, history = agent_in(tmp_path)
    # The model never read this file, so it may not replace it.
    await agent.run("seen.txt please", session="s")
    assert (tmp_path / "work" / "seen.txt").read_text() == "was there"
    await talk_until_compacted(agent)
    assert (await stored_summary(history)).files == ()
