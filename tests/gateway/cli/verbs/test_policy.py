"""`kore policy` and the flags of a single run, with the real program."""

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gateway.__main__ import main
from tests.gateway.cli.kore import kore

WRONG = "roles:\n  build:\n    tools:\n      exec: {comands: [ls]}\n"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("KORE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("KORE_SECURITY_SANDBOX", "none")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "home").mkdir(mode=0o700)
    return tmp_path / "home"


def check(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, str]:
    assert main(["policy", "check", "--json", *words]) == 0
    decision: dict[str, str] = json.loads(capsys.readouterr().out)
    assert set(decision) == {"decision", "reason", "rule"}
    return decision


def test_decision_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["policy", "check", "ls; rm -rf x"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("deny: the command `rm` is blocked")
    assert out.endswith("(blocked-command)\n")


def test_role_mode_and_channel_are_used(capsys: pytest.CaptureFixture[str]) -> None:
    assert check(capsys, "ls")["decision"] == "ask"
    assert check(capsys, "--mode", "auto", "ls")["decision"] == "allow"
    assert check(capsys, "--role", "general", "ls")["rule"] == "role-tool"
    assert check(capsys, "--channel", "telegram", "ls")["rule"] == "remote-exec"


def test_policy_file_is_used(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tools = "{exec: {commands: [go]}, write_file: {}}"
    (home / "policy.yaml").write_text(f"roles: {{mine: {{tools: {tools}}}}}")
    (home / "config.json").write_text('{"security": {"policy_file": "policy.yaml"}}')
    assert check(capsys, "--role", "mine", "--mode", "auto", "go build")["decision"] == "allow"
    assert check(capsys, "--role", "mine", "go build; make")["rule"] == "role-commands"


@pytest.mark.parametrize(
    "words",
    [
        ("policy", "check", "ls"),
        ("policy", "explain"),
        ("config", "validate"),
        ("agent", "--model", "offline/echo", "-m", "hi"),
        ("gateway",),
    ],
)
def test_invalid_policy_file_exits_with_code_2(home: Path, words: tuple[str]) -> None:
    (home / "policy.yaml").write_text(WRONG)
    (home / "config.json").write_text('{"security": {"policy_file": "policy.yaml"}}')
    ran = kore(*words, home=home)
    assert ran.returncode == 2
    assert "policy.yaml: line 4: roles.build.tools.exec.comands: unknown key" in ran.stderr
    assert 'did you mean "commands"?' in ran.stderr
    assert "Traceback" not in ran.stderr


def test_explain_shows_the_scopes_of_a_role(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["policy", "explain", "--role", "builder"]) == 0
    out = capsys.readouterr().out
    assert "commands go, rg, git status" in out
    assert "paths src/**" in out
    assert main(["policy", "explain", "Bash", "--role", "guest"]) == 0
    assert "exec  denied" in capsys.readouterr().out


def test_explain_shows_the_verdict_of_each_part(
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = ["--json", "--role", "builder", "--mode", "auto", "go build && curl x"]
    assert main(["policy", "explain", *words]) == 0
    verdicts = json.loads(capsys.readouterr().out)["verdicts"]
    decision = {(verdict["part"], verdict["decision"], verdict["rule"]) for verdict in verdicts}
    assert ("go build", "allow", "auto") in decision
    assert ("curl x", "deny", "role-commands") in decision
    assert ("all", "deny", "role-commands") in decision


def test_unknown_role_is_reported_in_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["policy", "check", "--role", "gest", "ls"]) == 2
    assert 'did you mean "guest"?' in capsys.readouterr().err


@pytest.mark.parametrize("setting", ["access", "agents"])
def test_setting_with_an_unknown_role_is_rejected(home: Path, setting: str) -> None:
    value = {"roles": {"telegram": "gest"}} if setting == "access" else {"gest": {}}
    (home / "config.json").write_text(json.dumps({setting: value}))
    ran = kore("config", "validate", home=home)
    assert ran.returncode == 2
    assert 'did you mean "guest"?' in ran.stderr


EXEC = '!tool exec {"command": "echo it-ran > proof"}'


@pytest.mark.parametrize(
    ("flags", "runs"),
    [
        (("-y",), True),
        (("--permission-mode", "auto"), True),
        (("--permission-mode", "plan"), False),
        (("--permission-mode", "accept-edits"), False),
        (("-y", "--allowed-tools", "Bash,Read"), True),
        (("-y", "--allowed-tools", "read_file"), False),
        (("-y", "--disallowed-tools", "bash"), False),
    ],
)
def test_flags_apply_to_one_run(home: Path, flags: tuple[str, ...], runs: bool) -> None:
    loose = {"KORE_SECURITY_SANDBOX": "none"}
    words = ("agent", "--model", "offline/echo", *flags, "-m", EXEC)
    ran = kore(*words, home=home, environ=loose)
    assert ran.returncode == 0
    assert (home / "workspace" / "proof").exists() is runs


@pytest.mark.parametrize("name", ["policy.yaml", "rules/POLICY.yaml"])
def test_policy_file_is_inaccessible_to_tools_anywhere(home: Path, name: str) -> None:
    file = home / "workspace" / name
    file.parent.mkdir(parents=True)
    file.write_text("roles: {build: {tools: {'*': {}}}}")
    config = {"security": {"policy_file": str(file)}, "agent": {"model": "offline/echo"}}
    (home / "config.json").write_text(json.dumps(config))
    for tool in ("write_file", "append_file"):
        call = json.dumps({"path": name, "content": "roles: {}"})
        ran = kore("agent", "-y", "-m", f"!tool {tool} {call}", home=home)
        assert "is part of Kore itself" in ran.stdout
    assert "build" in file.read_text()


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("--allowed-tools", "reed_file"), 'did you mean "read_file"?'),
        (("--disallowed-tools", "exec,deploy"), '"deploy"'),
        (("--permission-mode", "everything"), "everything"),
        (("-y", "--permission-mode", "plan"), "not allowed with"),
    ],
)
def test_invalid_flag_is_rejected(
    words: tuple[str, ...], expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["agent", *words, "-m", "hi"]) == 2
    assert expected in capsys.readouterr().err


def test_empty_command_is_not_harmless(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["policy", "check", " "]) == 2
    assert "the command is empty" in capsys.readouterr().err


def test_unquoted_command_with_options_is_explained(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["policy", "check", "ls", "-la"]) == 2
    error = capsys.readouterr().err
    assert "unrecognized arguments: -la; put a command with options in quotes" in error


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(command=st.text(st.characters(exclude_characters="\0"), min_size=1))
def test_every_command_has_a_verdict(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    for action in ("check", "explain"):
        code = main(["policy", action, "--", command])
        assert code == (0 if command.strip() or action == "explain" else 2)
    out, err = capsys.readouterr()
    assert "Traceback" not in err
    assert "\ud800" not in out


@pytest.mark.parametrize(
    "command", ["cat < \udcff", "cd \udcff; rm x", "cat </proc/1/cwd/x", "\udcff"]
)
def test_invalid_utf8_has_a_verdict(command: str, home: Path) -> None:
    for action in ("check", "explain"):
        result = kore("policy", action, command, home=home)
        assert result.returncode == 0, result.stderr
        assert "Traceback" not in result.stderr


@pytest.mark.parametrize("name", ["outline", "lsp_edit", "sync_virtual", "mcp__files__*"])
def test_run_may_disallow_every_tool(home: Path, name: str) -> None:
    ran = kore(
        *("agent", "--model", "offline/echo", "-m", "hi", "--disallowed-tools", name), home=home
    )
    assert ran.returncode == 0, ran.stderr


def test_role_may_deny_every_editing_tool(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (home / "policy.yaml").write_text(
        'roles: {reader: {tools: {"*": {}, write_file: false, edit_file: false, outline: {}, '
        "lsp_edit: false, create_virtual: false, update_virtual: false, sync_virtual: false}}}"
    )
    (home / "config.json").write_text('{"security": {"policy_file": "policy.yaml"}}')
    assert main(["policy", "explain", "lsp_edit", "--role", "reader"]) == 0
    assert "lsp_edit  denied" in capsys.readouterr().out
