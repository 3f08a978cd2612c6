import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from agent.agent import Agent
from agent.errors import ToolError
from agent.providers.scripted import ScriptedProvider
from agent.settings import ToolSettings
from agent.tools.assistant.subagent import SubagentTool
from agent.tools.built_in import default_tools
from agent.tools.registry import ToolRegistry, project_help
from tests.agent.props import answers


@pytest.fixture
def toolbox(settings: ToolSettings) -> ToolRegistry:
    return ToolRegistry(default_tools(settings))


def test_every_spec_is_small(toolbox: ToolRegistry) -> None:
    sizes = {}
    for spec in toolbox.specs():
        whole = {"name": spec.name, "description": spec.description, "parameters": spec.parameters}
        sizes[spec.name] = len(json.dumps(whole, separators=(",", ":"), ensure_ascii=False))
    # Vendors reject schemas whose list items have no description.
    for name, limit in {
        "edit_file": 560,
        "exec": 510,
        "grep": 380,
        "todo": 380,
        "ask_user": 440,
        "task": 500,
        "schedule": 385,
        "remember": 510,
    }.items():
        assert sizes.pop(name) <= limit
    assert max(sizes.values()) <= 340


def test_specs_are_equal_in_every_registry(settings: ToolSettings, toolbox: ToolRegistry) -> None:
    assert toolbox.specs() == ToolRegistry(default_tools(settings)).specs()


def test_specs_are_cached(toolbox: ToolRegistry) -> None:
    assert all(a is b for a, b in zip(toolbox.specs(), toolbox.specs(), strict=True))


def test_specs_in_a_project_have_longer_descriptions(toolbox: ToolRegistry) -> None:
    plain, fuller = toolbox.specs(), toolbox.specs(in_project=True)
    assert [spec.name for spec in plain] == [spec.name for spec in fuller]
    assert "description" not in json.dumps(plain[0].parameters)
    specs = {spec.name: spec for spec in fuller}
    start = specs["read_file"].parameters["properties"]["line_start"]
    assert start["type"] == "integer"
    assert start["description"].startswith("first line")
    assert specs["exec"].description.startswith(toolbox.get("exec").description)
    assert "background" in specs["exec"].parameters["properties"]
    assert all(a is b for a, b in zip(fuller, toolbox.specs(in_project=True), strict=True))


def test_project_help_names_existing_tools_and_parameters(tmp_path: Path) -> None:
    toolbox = Agent(ScriptedProvider([]), workspace=tmp_path).toolbox
    for name, help in project_help().items():
        tool = toolbox.get(name)
        assert tool.name == name
        assert help.parameters.keys() <= tool.parameters["properties"].keys(), name
        assert help.text or help.parameters


def test_custom_tool_keeps_its_own_description() -> None:
    (own,) = ToolRegistry([answers("grep")]).specs(in_project=True)
    (plain,) = ToolRegistry([answers("grep")]).specs()
    assert own == plain


def test_later_agent_is_added_to_the_description() -> None:
    names = ["general"]
    toolbox = ToolRegistry([SubagentTool(lambda: ", ".join(names))])
    (before,) = toolbox.specs()
    names.append("critic")
    (after,) = toolbox.specs()
    assert "critic" not in before.description
    assert "general, critic" in after.description
    assert toolbox.specs() == (after,)


def test_tools_that_change_something_declare_it(toolbox: ToolRegistry) -> None:
    changing = {"edit", "move", "delete", "execute"}
    for spec in toolbox.specs():
        if toolbox.traits(spec.name).kind in changing:
            assert toolbox.effect(spec.name) != "read", spec.name


@pytest.mark.parametrize(
    ("name", "canonical"),
    [
        ("read_file", "read_file"), ("read", "read_file"), ("Read", "read_file"),
        ("FileRead", "read_file"), ("View", "read_file"), ("write", "write_file"),
        ("Write", "write_file"), ("FileWrite", "write_file"), ("edit", "edit_file"),
        ("Edit", "edit_file"), ("MultiEdit", "edit_file"), ("ls", "list_dir"),
        ("list_files", "list_dir"), ("LS", "list_dir"), ("bash", "exec"), ("Bash", "exec"),
        ("run_command", "exec"), ("shell", "exec"), ("WebSearch", "web_search"),
        ("WebFetch", "web_fetch"), ("ReadFile", "read_file"), ("Grep", "grep"),
        ("search", "grep"), ("Glob", "glob"), ("TodoWrite", "todo"),
        ("AskUserQuestion", "ask_user"), ("cron", "schedule"),
    ],
)  # fmt: skip
def test_tool_names_of_other_programs_are_accepted(
    toolbox: ToolRegistry, name: str, canonical: str
) -> None:
    tool = toolbox.find(name)
    assert tool is not None
    assert tool.name == canonical


def test_unknown_name_gets_a_suggestion(toolbox: ToolRegistry) -> None:
    assert toolbox.find("raed_file") is None
    with pytest.raises(ToolError, match="did you mean read_file"):
        toolbox.get("raed_file")
    with pytest.raises(ToolError, match="there are read_file, write_file"):
        toolbox.get("zzz")


@pytest.mark.parametrize(
    ("name", "given", "expected"),
    [
        ("read_file", {"file_path": "a"}, {"path": "a"}),
        ("read_file", {"path": "a", "line_start": None}, {"path": "a"}),
        ("read_file", {"path": "a", "offset": 10, "limit": 5},
         {"path": "a", "line_start": 10, "line_end": 14}),
        ("read_file", {"path": "a", "limit": 5}, {"path": "a", "line_end": 5}),
        ("read_file", {"path": "a", "offset": 0, "limit": 2},
         {"path": "a", "line_start": 0, "line_end": 2}),
        ("read_file", {"path": "a", "file_path": "b"}, {"path": "a"}),
        ("exec", {"cmd": "ls", "timeout": 5, "description": "List"},
         {"command": "ls", "timeout_s": 5}),
        ("exec", {"command": "ls", "run_in_background": True},
         {"command": "ls", "background": True}),
        ("edit_file", {"file_path": "a", "edits": [{"old_string": "a", "new_string": "b"}]},
         {"path": "a", "edits": [{"old_string": "a", "new_string": "b"}]}),
        ("list_dir", {}, {}),
        ("grep", {"query": "x", "include": "*.py", "-i": True, "output_mode": "content"},
         {"pattern": "x", "glob": "*.py", "ignore_case": True}),
        ("web_search", {"query": "x", "max_results": 3}, {"query": "x", "count": 3}),
    ],
)  # fmt: skip
def test_argument_names_of_other_programs_are_accepted(
    toolbox: ToolRegistry, name: str, given: dict[str, Any], expected: dict[str, Any]
) -> None:
    assert toolbox.validate(toolbox.get(name), given) == expected


@pytest.mark.parametrize(
    ("name", "given", "sentence"),
    [
        ("read_file", {}, "read_file needs the argument 'path'; found none."),
        ("write_file", {"path": "a"}, "write_file needs the argument 'content'; found only path."),
        ("read_file", {"path": 5}, "read_file: path must be of type string, found number 5."),
        ("read_file", {"path": None}, "read_file: path must be of type string, found null null."),
        ("read_file", {"path": "a", "line_start": "two"},
         'read_file: line_start must be of type integer, found string "two".'),
        ("read_file", {"path": "a", "limit": "x"},
         'read_file: line_end must be of type integer, found string "x".'),
        ("read_file", {"path": "a", "line_start": True},
         "read_file: line_start must be of type integer, found boolean true."),
        ("exec", {"command": "ls", "timout_s": 1},
         "exec has no argument 'timout_s'; did you mean timeout_s?"),
        ("remember", {"text": "a", "zzz": 1},
         "remember has no argument 'zzz'; it takes text, replaces, more."),
        ("edit_file", {"path": "a", "edits": [{"old_string": "a"}]},
         "edit_file needs the argument 'new_string' in edits.0; found only old_string."),
    ],
)  # fmt: skip
def test_invalid_argument_is_named_in_one_sentence(
    toolbox: ToolRegistry, name: str, given: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(ToolError) as caught:
        toolbox.validate(toolbox.get(name), given)
    assert str(caught.value) == sentence


def test_huge_invalid_value_is_shortened(toolbox: ToolRegistry) -> None:
    with pytest.raises(ToolError) as caught:
        toolbox.validate(toolbox.get("read_file"), {"path": {"x": "y" * 10_000}})
    assert len(str(caught.value)) < 150


def test_broken_part_of_a_schema_is_not_checked() -> None:
    tool = answers("mine")
    tool.parameters = {"type": "object", "required": 5, "properties": {"a": {"type": "integer"}}}
    assert ToolRegistry([tool]).validate(tool, {}) == {}
    with pytest.raises(ToolError, match="a must be of type integer"):
        ToolRegistry([tool]).validate(tool, {"a": "x"})


def test_later_tool_replaces_the_earlier_one(toolbox: ToolRegistry, settings: ToolSettings) -> None:
    tools = default_tools(settings)
    mine = default_tools(settings)[0]
    box = ToolRegistry([*tools, mine])
    assert box.find("Read") is mine
    assert [spec.name for spec in box.specs()] == [spec.name for spec in toolbox.specs()]


def test_creating_the_tools_imports_nothing_heavy() -> None:
    script = (
        "import sys; from agent.settings import ToolSettings; "
        "from agent.tools.built_in import default_tools; "
        "from agent.tools.registry import ToolRegistry; "
        "ToolRegistry(default_tools(ToolSettings())).specs(); "
        "print(*sys.modules)"
    )
    loaded = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    ).stdout.split()
    assert not {"aiohttp", "lxml", "ddgs", "duckduckgo_search", "re2"} & set(loaded)


def test_model_trained_on_patches_gets_the_patch_tool_instead() -> None:
    toolbox = ToolRegistry(default_tools(ToolSettings()))
    plain = {spec.name: spec for spec in toolbox.specs()}
    patching = {spec.name: spec for spec in toolbox.specs(patches=True)}
    assert plain.keys() - patching.keys() == {"edit_file"}
    assert patching.keys() - plain.keys() == {"apply_patch"}
    assert (patching["apply_patch"].grammar or "").startswith('start: "*** Begin Patch"')


def test_agent_with_one_editing_tool_keeps_it() -> None:
    toolbox = ToolRegistry(default_tools(ToolSettings())).only(lambda name: name == "edit_file")
    assert [spec.name for spec in toolbox.specs(patches=True)] == ["edit_file"]
