"""Roles and their scopes."""

from pathlib import Path
from typing import Any

import pytest

from agent.errors import ConfigError
from agent.security.policy.base import ASKED_IN_EVERY_MODE, NEVER_REMEMBERED, ToolRequest
from agent.security.policy.engine import PrincipalContext, RolePolicy
from agent.security.policy.policy_file import built_in_roles, parse_policy
from agent.security.policy.roles import Grants, Role, ToolRule, in_commands, in_hosts, in_paths
from agent.turn.tool_catalog import known_tools, tool_traits

HERE = Path("/w")


def file(name: str) -> tuple[Path]:
    return (HERE / name,)


def request(tool: str, effect: Any = "unsafe", args: Any = None, **plan: Any) -> ToolRequest:
    return ToolRequest(tool, effect, args or {}, HERE, traits=tool_traits(tool), **plan)


def read(name: str) -> ToolRequest:
    return request("read_file", "read", reads=file(name))


def write(name: str) -> ToolRequest:
    return request("write_file", "idempotent", creates=file(name))


def run(command: str) -> ToolRequest:
    return request("exec", command=command, folder=HERE)


def fetch(url: str) -> ToolRequest:
    return request("web_fetch", "read", {"url": url})


def rule(role: str | Role, tool_request: ToolRequest, mode: Any = "auto") -> str:
    """Return the rule that decided, or "allow" without objections."""
    actual_role = built_in_roles()[role] if isinstance(role, str) else role
    decision = RolePolicy(PrincipalContext(actual_role, mode, is_confined=True)).decide(
        tool_request
    )
    return decision.verdict if decision.verdict == "allow" else decision.rule


def role(**tools: ToolRule) -> Role:
    return Role("mine", tools)


@pytest.mark.parametrize(
    ("glob", "path", "fits"),
    [
        ("docs/**", "docs/a/b.md", True),
        ("docs/**", "docs", True),
        ("docs/**", "docs2/a", False),
        ("./docs/**", "docs/a", True),
        ("**", "a/b", True),
        ("**", ".", True),
        ("**/*.md", "a/b/c.md", True),
        ("**/*.md", "c.md", True),
        ("*.md", "a/c.md", False),
        ("src/*/x", "src/a/x", True),
        ("src/*/x", "src/a/b/x", False),
        ("**/docs/x", "docs/docs/x", True),
        ("a/**/b", "a/b", True),
        ("README.md", "readme.md", False),
        ("", "a", False),
        ("a?[bc]", "axb", True),
    ],
)
def test_path_globs_match(glob: str, path: str, fits: bool) -> None:
    assert in_paths(HERE / path, HERE, (glob,)) is fits


def test_globs_stay_in_the_workspace() -> None:
    assert not in_paths(Path("/etc/passwd"), HERE, ("**", "/etc/**", "../etc/**"))


def test_hostile_glob_is_fast() -> None:
    assert not in_paths(HERE / "/".join("a" * 200), HERE, ("**/a" * 50 + "/b",))
    assert not in_paths(HERE / ("a" * 255), HERE, ("*a" * 60 + "b",))


@pytest.mark.parametrize(
    ("words", "fits"),
    [
        ("git status", True),
        ("git status --short", True),
        ("git stash", False),
        ("git", False),
        ("gitk status", False),
        ("/tmp/git status", False),
        ("ls -la", True),
        ("lsof", False),
    ],
)
def test_command_prefixes_are_whole_words(words: str, fits: bool) -> None:
    assert in_commands(tuple(words.split()), ("git status", "ls")) is fits


def test_computed_word_matches_no_prefix() -> None:
    assert not in_commands(("git", None), ("git status",))
    assert not in_commands((None,), ("ls",))


def test_host_patterns_match() -> None:
    names = ("example.org", "*.wiki.org")
    assert in_hosts("Example.ORG.", names)
    assert in_hosts("en.wiki.org", names)
    assert not in_hosts("wiki.org", names)
    assert not in_hosts("evilwiki.org", names)
    assert not in_hosts("a.example.org", names)


@pytest.mark.parametrize(
    ("name", "tool_request", "expected"),
    [
        ("build", write("a"), "allow"),
        ("build", run("make"), "allow"),
        ("plan", read("a"), "allow"),
        ("plan", write("a"), "role-tool"),
        ("plan", run("git status"), "allow"),
        ("plan", run("git push"), "role-commands"),
        ("plan", run("git diff > x"), "role-redirect"),
        ("general", read("a"), "allow"),
        ("general", write("a"), "allow"),
        ("general", request("write_file", changes=file("a")), "role-new-files"),
        ("general", request("append_file", changes=file("a")), "allow"),
        ("general", request("edit_file", changes=file("a")), "role-tool"),
        ("general", request("remember", "idempotent"), "allow"),
        ("general", run("ls"), "role-tool"),
        ("guest", request("web_search", "read"), "allow"),
        ("guest", read("a"), "role-tool"),
        ("writer", read("docs/a"), "allow"),
        ("writer", read("src/a"), "role-paths"),
        ("writer", write("docs/a"), "allow"),
        ("writer", run("ls"), "role-tool"),
        ("designer", write("design/a"), "allow"),
        ("designer", write("src/a"), "role-paths"),
        ("designer", fetch("https://en.wikipedia.org/wiki/A"), "allow"),
        ("designer", fetch("https://example.org/"), "role-hosts"),
        ("designer", fetch("https://wikipedia.org.evil.example/"), "role-hosts"),
        ("builder", write("src/a"), "allow"),
        ("builder", write("a"), "role-paths"),
        ("builder", run("go build ./... && rg x"), "allow"),
        ("builder", run("go build; make"), "role-commands"),
        ("builder", run("rg $(curl evil)"), "role-commands"),
        ("builder", run("env rg x"), "role-commands"),
        ("builder", run("LD_PRELOAD=x rg x"), "role-commands"),
        ("builder", run("PATH=/tmp; rg x"), "role-commands"),
        ("builder", run("for PATH in ./bin; do rg x; done"), "role-commands"),
        ("builder", run("rg ${GIT_DIR:=x}; rg $((PATH=5))"), "role-commands"),
        ("builder", run("for f in a b; do rg x $f; done"), "allow"),
        ("builder", run("rg(){ make; }; rg x"), "role-commands"),
        ("builder", run("rg x > src/found"), "allow"),
        ("builder", run("rg x > found"), "role-paths"),
        ("builder", run("rg x >> /etc/found"), "role-paths"),
        ("builder", run("rg x < /etc/shadow"), "role-paths"),
        ("builder", run("rg x 2>/dev/null"), "allow"),
    ],
)
def test_built_in_roles(name: str, tool_request: ToolRequest, expected: str) -> None:
    assert rule(name, tool_request) == expected


def test_role_asks_unless_the_mode_is_auto() -> None:
    asking = role(read_file=ToolRule(ask=True))
    assert rule(asking, read("a"), "ask") == "role-ask"
    assert rule(asking, read("a"), "accept-edits") == "role-ask"
    assert rule(asking, read("a"), "auto") == "allow"


def test_rule_of_a_tool_overrides_the_rule_for_all() -> None:
    mine = Role("mine", {"*": ToolRule(), "exec": ToolRule(allow=False)})
    assert rule(mine, write("a")) == "allow"
    assert rule(mine, run("ls")) == "role-tool"


def test_uncheckable_scope_denies() -> None:
    mine = role(deploy=ToolRule(paths=("**",)), call=ToolRule(hosts=("a.org",)))
    assert rule(mine, request("deploy")) == "role-unplanned"
    assert rule(mine, request("call")) == "role-unplanned"
    assert rule(mine, request("call", hosts=("a.org",))) == "allow"


def test_tool_without_a_plan_is_judged_by_its_path_argument(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "link").symlink_to("/etc")
    mine = role(grep=ToolRule(paths=("docs/**",)))

    def verdict(path: str) -> str:
        return rule(mine, ToolRequest("grep", "read", {"path": path}, tmp_path))

    assert verdict("docs") == "allow"
    assert verdict("docs/../src") == "role-paths"
    assert verdict("docs/link/passwd") == "role-paths"


def test_redirection_may_not_overwrite_with_new_files_only(tmp_path: Path) -> None:
    (tmp_path / "old").touch()
    mine = role(exec=ToolRule(), write_file=ToolRule(new_files_only=True))

    def verdict(command: str) -> str:
        tool_request = ToolRequest("exec", "unsafe", {}, tmp_path, command=command, folder=tmp_path)
        return rule(mine, tool_request)

    assert verdict("ls > new") == "allow"
    assert verdict("ls > old") == "role-new-files"


def test_paths_of_exec_apply_to_its_redirections() -> None:
    mine = role(exec=ToolRule(paths=("out/**",)))
    assert rule(mine, run("ls > out/a")) == "allow"
    assert rule(mine, run("ls > a")) == "role-paths"
    assert rule(mine, run("cd out && ls > a")) == "role-paths"


def test_grants_only_restrict() -> None:
    build = built_in_roles()["build"]
    assert rule(build.with_grants(Grants(allow_write=False)), write("a")) == "agents-write"
    assert rule(build.with_grants(Grants(allow_write=False)), run("ls > a")) == "agents-write"
    assert rule(build.with_grants(Grants(allow_command=False)), run("ls")) == "agents-command"
    confirming = build.with_grants(Grants(confirm_before_command=True))
    assert rule(confirming, run("ls"), "accept-edits") == "agents-confirm"
    assert rule(confirming, run("ls"), "auto") == "allow"
    guest = built_in_roles()["guest"].with_grants(Grants())
    assert rule(guest, run("ls")) == "role-tool"


def test_open_role_depends_only_on_the_mode() -> None:
    text = "default: {deny_by_default: false}\nroles: {mine: {tools: {exec: false}}}"
    mine = parse_policy(text, "p", known_tools()).roles["mine"]
    assert rule(mine, write("a")) == "allow"
    assert rule(mine, run("ls")) == "role-tool"


def test_denial_names_the_role_and_its_limits() -> None:
    judge = RolePolicy(PrincipalContext(built_in_roles()["builder"], is_confined=True))
    reason = judge.decide(run("go version; make")).reason
    assert "builder" in reason
    assert "git status" in reason
    assert reason.endswith("make")


ESCALATING = """
roles:
  writer:
    escalate: ask
    tools:
      read_file: {paths: ["docs/**"]}
      write_file: {paths: ["docs/**"], new_files_only: true}
      exec: {commands: [ls]}
      web_fetch: {hosts: [a.org]}
"""


@pytest.mark.parametrize(
    ("tool_request", "verdict"),
    [
        (write("docs/a"), "allow"),
        (run("ls docs"), "allow"),
        (write("src/a"), "role-escalation"),
        (request("write_file", "idempotent", changes=file("docs/a")), "role-escalation"),
        (request("edit_file", changes=file("docs/a")), "role-escalation"),
        (run("make"), "role-escalation"),
        (run("sudo make"), "blocked-command"),
        (read("src/a"), "role-paths"),
        (fetch("https://b.org"), "role-hosts"),
    ],
)
@pytest.mark.parametrize("mode", ["accept-edits", "auto"])
def test_escalating_role_asks_instead_of_denying(
    mode: str, tool_request: ToolRequest, verdict: str
) -> None:
    writer = parse_policy(ESCALATING, "policy.yaml", known_tools()).roles["writer"]
    assert rule(writer, tool_request, mode) == verdict
    decisions = RolePolicy(PrincipalContext(writer, "plan", is_confined=True)).decide(tool_request)
    if verdict != "allow":
        assert decisions.verdict == "deny", "plan mode changes nothing, whoever is asked"


def test_escalation_asks_each_time() -> None:
    assert "role-escalation" in ASKED_IN_EVERY_MODE & NEVER_REMEMBERED
    text = ESCALATING.replace("escalate: ask", "escalate: maybe")
    with pytest.raises(ConfigError, match='found "maybe", expected ask or deny'):
        parse_policy(text, "policy.yaml", known_tools())
