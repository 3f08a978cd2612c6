from agent.events import FromAgent
from agent.tools.assistant.subagent import SubagentTool
from gateway.cli.console.output.subagent_lines import SubagentLines
from gateway.cli.console.output.text import call_line, event_line


def subagent_event(kind: str, number: str = "1", **more: object) -> FromAgent:
    return FromAgent("explore", number, "look around", {"type": kind, **more})


def test_each_sub_agent_has_a_line_until_it_ends() -> None:
    crew = SubagentLines()
    crew.take(subagent_event("session_start"))
    crew.take(subagent_event("session_start", "2"))
    assert [line.plain for line in crew.lines("*")] == [
        "* explore (1) look around · 0 s",
        "* explore (2) look around · 0 s",
    ]
    crew.take(subagent_event("tool_start", name="read_file", arguments={"path": "a\x1b[31m.txt"}))
    crew.take(subagent_event("done", "2"))
    (line,) = crew.lines("*")
    assert line.plain.startswith("* explore (1) read_file a")
    assert "\x1b" not in line.plain
    crew.take(subagent_event("done"))
    assert not list(crew.lines("*"))


def test_the_line_of_one_that_was_given_up_ends() -> None:
    crew = SubagentLines()
    crew.take(subagent_event("session_start"))
    crew.take(subagent_event("error", message="broke"))
    assert not list(crew.lines("*"))


def test_steps_and_calls_are_one_line_each() -> None:
    step = subagent_event("tool_start", name="exec", arguments={"command": "ls"})
    assert event_line(step) == "explore (1) ● exec ls"
    assert event_line(subagent_event("done")) == "explore (1) finished"
    assert event_line(subagent_event("tool_result")) is None
    args = {"subagent_type": "explore", "description": "look", "prompt": "x"}
    assert call_line("task", args, SubagentTool.traits.label) == "task explore look"
