import pytest

from agent.subagents.definition import SubagentDefinition, read_definition


def definition(head: str, body: str = "You do x.") -> SubagentDefinition:
    return read_definition(f"---\n{head}\n---\n{body}".encode(), "stem", "/a/stem.md")


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("tools: Read, Grep, Bash", ("read_file", "grep", "exec")),
        ("tools: [FileRead, View, Edit]", ("read_file", "edit_file")),
        ("tools: Read Grep", ("read_file", "grep")),
        ("tools: Bash(git diff:*, git log), Write", ("exec", "write_file")),
        ("tools: mcp__github__list_issues", ("mcp__github__list_issues",)),
        ("tools: NotebookEdit", ("NotebookEdit",)),
        ("allowed-tools: Read", ("read_file",)),
        ("tools: []", ()),
        ("tools: '*'", None),
        ("tools: [Read, '*']", None),
        ("tools: *", None),
        ("tools: All tools", None),
        ("tools: all", None),
        ("tools: ''", ()),
        ("tools: [Read, Grep", ("read_file", "grep")),
        ("tools: `Read`, `Grep`", ("read_file", "grep")),
        ("tools: {'*': false, read: true, bash: false}", ("read_file",)),
        ("tools: {read: true, bash: false}", None),
        ("tools:", None),
        ("name: a", None),
    ],
)
def test_tools_are_read_in_every_notation(written: str, meant: tuple[str, ...] | None) -> None:
    assert definition(written).tools == meant


@pytest.mark.parametrize(
    ("written", "may_edit"),
    [
        ("tools: Read, lsp, Edit", True),
        ("tools: lsp, Bash", True),
        ("tools: Read, lsp", False),
        ("tools: Read, lsp, lsp_edit", True),
        ("tools: Read, Edit", False),
        ("tools: lsp, Edit\ndisallowedTools: lsp_edit", False),
    ],
)
def test_agent_with_edit_tools_gets_lsp_edit(written: str, may_edit: bool) -> None:
    assert definition(written).chooses("lsp_edit") is may_edit


@pytest.mark.parametrize("key", ["disallowedTools", "disallowed-tools", "disallowed_tools"])
def test_tools_are_denied_in_any_spelling(key: str) -> None:
    result = definition(f"tools: Read, Bash\n{key}: Bash")
    assert [result.chooses(tool) for tool in ("read_file", "exec", "grep")] == [True, False, False]
    assert definition(f"{key}: Bash").chooses("grep")


@pytest.mark.parametrize(
    "written",
    [
        "tools: {read: true, bash: false}",
        "tools: All tools except Bash, Edit",
        "allowed-tools: all but Bash",
    ],
)
def test_denied_tools_apply_to_listed_tools(written: str) -> None:
    result = definition(written)
    assert [result.chooses(tool) for tool in ("read_file", "exec")] == [True, False]
    assert not result.remarks


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("model: haiku", "quick"),
        ("model: Sonnet", "task"),
        ("model_name: opus", "default"),
        ("model: sonnet[1m]", "task"),
        ("model: claude-haiku-4-5-20251001", "claude-haiku-4-5-20251001"),
        ("model: inherit", None),
        ("name: a", None),
        ("model: openai/gpt-5", "openai/gpt-5"),
        ("model: reasoning", "reasoning"),
    ],
)
def test_foreign_model_names_select_profiles(written: str, meant: str | None) -> None:
    assert definition(written).model == meant


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("permissionMode: acceptEdits", "accept-edits"),
        ("permissionMode: bypassPermissions", "auto"),
        ("permission_mode: plan", "plan"),
        ("permissionMode: default", None),
        ("permissionMode: root", None),
    ],
)
def test_foreign_permission_modes_are_read(written: str, meant: str | None) -> None:
    assert definition(written).mode == meant


def test_booleans_are_read_with_and_without_quotes() -> None:
    assert definition("background: true").background
    assert definition('background: "true"').background
    assert not definition("background: maybe").background


def test_unknown_fields_are_kept_and_reported() -> None:
    result = definition("name: a\nhooks: {Stop: []}\nmaxTurns: 7")
    assert result.more == {"hooks": {"Stop": []}}
    assert result.remarks == ('the field "hooks" has no effect',)
    assert result.max_turns == 7


def test_file_without_frontmatter_is_an_agent_named_after_it() -> None:
    result = read_definition(b"# Critic\n\nYou criticise.", "critic", "/a/critic.md")
    assert (result.name, result.description) == ("critic", "Critic")
    assert result.prompt == "# Critic\n\nYou criticise."
