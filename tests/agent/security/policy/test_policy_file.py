"""Policy files in both formats, with one line per mistake."""

from pathlib import Path

import pytest

from agent.errors import ConfigError
from agent.security.policy.policy_file import (
    SIZE_LIMIT_BYTES,
    decode_policy,
    parse_policy,
    read_raw,
)
from agent.security.policy.roles import ToolRule
from agent.turn.tool_catalog import known_tools

NEWER = """
default: {deny_by_default: true, audit_level: full}
roles:
  build: {tools: {"*": {allow: true}}}
  plan:
    tools:
      read_file: {}
      grep:
      exec: {commands: ["git status", ls], ask: true}
  writer: {tools: {read_file: {paths: ["docs/**", "README.md"]}, web_fetch: {hosts: [a.org]}}}
"""
OLDER = """
roles:
  writer:
    tools: [read_file, send_file, exec, web_fetch, remember]
    scopes: {paths: ["docs/**"], commands: [ls], hosts: [a.org]}
"""


def complaints(text: str) -> list[str]:
    with pytest.raises(ConfigError) as failure:
        parse_policy(text, "policy.yaml", known_tools())
    return str(failure.value).splitlines()


def test_format_with_scopes_per_tool() -> None:
    policy = parse_policy(NEWER, "policy.yaml", known_tools())
    assert policy.audit_level == "full"
    assert policy.roles["build"].tools == {"*": ToolRule()}
    assert policy.roles["plan"].tools == {
        "read_file": ToolRule(),
        "grep": ToolRule(),
        "exec": ToolRule(ask=True, commands=("git status", "ls")),
    }
    assert policy.roles["writer"].tools["read_file"].paths == ("docs/**", "README.md")
    assert policy.roles["writer"].source == "policy.yaml"


def test_format_with_tool_list_and_common_scopes() -> None:
    tools = parse_policy(OLDER, "policy.yaml", known_tools()).roles["writer"].tools
    assert tools == {
        "read_file": ToolRule(paths=("docs/**",)),
        "send_file": ToolRule(paths=("docs/**",)),
        "exec": ToolRule(commands=("ls",), hosts=("a.org",)),
        "web_fetch": ToolRule(hosts=("a.org",)),
        "remember": ToolRule(),
    }


@pytest.mark.parametrize("text", ["", "# nothing\n", "roles: {}", "default: {}"])
def test_empty_file_is_valid(text: str) -> None:
    policy = parse_policy(text, "policy.yaml", known_tools())
    assert policy.roles == {}
    assert policy.audit_level == "summary"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("rolse: {}", '1: rolse: unknown key; did you mean "roles"?'),
        ("\n\nroles: [a]", "3: roles: found a list, expected a mapping"),
        ("default:\n  audit_level: sum", '2: default.audit_level: found "sum", expected none'),
        ("default: {deny_by_default: 1}", '1: default.deny_by_default: found a number "1"'),
        ("roles:\n  a: {}", '2: roles.a: the key "tools" is missing'),
        ("roles:\n  a:\n    tool: {}", '3: roles.a.tool: unknown key; did you mean "tools"?'),
        (
            "roles: {a: {tools: {read_fil: {}}}}",
            '1: roles.a.tools.read_fil: unknown tool "read_fil"; did you mean "read_file"?',
        ),
        (
            "roles:\n  a:\n    tools:\n      exec: {comands: [ls]}",
            '4: roles.a.tools.exec.comands: unknown key; did you mean "commands"?',
        ),
        (
            "roles: {a: {tools: {exec: {commands: ls}}}}",
            '1: roles.a.tools.exec.commands: found a text "ls", expected a list',
        ),
        (
            "roles: {a: {tools: {exec: {commands: [ls, 7]}}}}",
            '1: roles.a.tools.exec.commands: found a number "7", expected text; put it in quotes',
        ),
        (
            "roles: {a: {tools: {exec: {ask: never}}}}",
            '1: roles.a.tools.exec.ask: found a text "ne',
        ),
        (
            "roles: {a: {tools: [on]}}",
            '1: roles.a.tools: found true or false "on", expected text',
        ),
        ("roles: {a: {tools: {}}, a: {tools: {}}}", "1: roles.a: is listed twice"),
        ("roles: {a: &x {tools: {}}, b: *x}", "1: roles.b: found an alias (*name)"),
        ("roles: &a {b: *a}", "1: roles.b: found an alias (*name)"),
        (
            "roles: {a: {tools: {exec: {}}, scopes: {}}}",
            "1: roles.a.scopes: only valid with a list of tools",
        ),
        ("roles: {a: {tools: [exec], scopes: {path: [x]}}}", "1: roles.a.scopes.path: unknown key"),
        (
            'roles: {"a": {tools: {exec: !!python/object/apply:os.system [x]}}}',
            "1: roles.a.tools.exec: found a list, expected a map",
        ),
        ("roles: [", "1: not valid YAML: "),
        ("roles:\n\tx", "2: not valid YAML: "),
        ("just text", "1: found a text, expected a mapping"),
    ],
)
def test_mistake_is_one_line_with_its_location(text: str, line: str) -> None:
    lines = complaints(text)
    assert any(complaint.startswith(f"policy.yaml: line {line}") for complaint in lines), lines


def test_all_mistakes_are_reported_in_file_order() -> None:
    text = "default: {audit_level: x}\nroles:\n  a: {tools: {exec: {aks: true}}}\n  b: 3\n"
    assert [line.split(": ")[1] for line in complaints(text)] == [
        "line 1",
        "line 3",
        "line 4",
        "line 4",
    ]


def test_two_names_for_one_tool_are_rejected() -> None:
    text = "roles: {a: {tools: {exec: {allow: false}, Bash: {}}}}"
    with pytest.raises(ConfigError, match="Bash: an alias of exec"):
        parse_policy(text, "p", known_tools())


def test_deep_nesting_is_rejected() -> None:
    assert complaints("[" * 5000) == ["policy.yaml: nested too deeply for a policy file"]


def test_invalid_bytes_are_reported_with_their_line() -> None:
    with pytest.raises(ConfigError, match=r"p: line 2: byte 0xff is not valid UTF-8"):
        decode_policy(b"roles:\n  \xff", "p", known_tools())


def test_unusable_files_are_rejected(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="policy file not found"):
        read_raw(tmp_path / "missing.yaml")
    with pytest.raises(ConfigError, match="policy file not found"):
        read_raw(tmp_path)
    (tmp_path / "huge.yaml").write_bytes(b"#" * (SIZE_LIMIT_BYTES + 1))
    with pytest.raises(ConfigError, match="larger than"):
        read_raw(tmp_path / "huge.yaml")


MATRIX = """
roles:
  coder: {tools: [read_file, http_fetch, run_tests], scopes: {paths: ["src/**"]}}
"""


def test_unknown_tool_is_a_note_in_the_older_format() -> None:
    policy = parse_policy(MATRIX, "policy.yaml", known_tools())
    assert policy.roles["coder"].tools["read_file"].paths == ("src/**",)
    first, second = policy.notes
    assert first.startswith('policy.yaml: line 3: roles.coder.tools: unknown tool "http_fetch"')
    assert second.startswith('policy.yaml: line 3: roles.coder.tools: unknown tool "run_tests"')


def test_unknown_tool_is_a_mistake_if_all_others_are_allowed() -> None:
    with pytest.raises(ConfigError, match='"http_fetch"'):
        parse_policy("default: {deny_by_default: false}\n" + MATRIX, "policy.yaml", known_tools())
