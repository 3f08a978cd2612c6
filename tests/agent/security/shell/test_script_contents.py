"""Script files whose contents are part of a command's approval."""

import os
from pathlib import Path

import pytest

from agent.security.shell.script_contents import ScriptContents, script_contents

LINES = (Path(__file__).with_name("lines_that_run_files.txt")).read_text().splitlines()


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    root = (tmp_path / "workspace").resolve()
    (root / "pkg").mkdir(parents=True)
    (root / "sub").mkdir()
    names = ("x.sh", "x.py", "x.js", "Makefile", "package.json", "pkg/__main__.py", "data")
    for name in (*names, "pkg/__init__.py", "sub/Makefile", "sub/package.json"):
        (root / name).write_text("old\n")
    return root


@pytest.mark.parametrize(
    ("line", "file"),
    [
        ("./x.sh", "x.sh"), ("./x.sh a b", "x.sh"), ("bash x.sh", "x.sh"), ("sh -x x.sh", "x.sh"),
        ("python x.py", "x.py"), ("python3 -u x.py data", "x.py"), ("python -W data x.py", "x.py"),
        ("python -m pkg", "pkg/__main__.py"), ("python -m x", "x.py"), ("node x.js", "x.js"),
        ("make", "Makefile"), ("make test", "Makefile"), ("make -f x.sh", "x.sh"),
        ("npm run build", "package.json"), ("env A=1 ./x.sh", "x.sh"), (". ./x.sh", "x.sh"),
        ("timeout 5 python x.py", "x.py"), ("cd pkg && ../x.sh", "x.sh"), ("ls; ./x.sh", "x.sh"),
        ("bash -c './x.sh'", "x.sh"), ("cd pkg && python ../x.py", "x.py"), ("./new.sh", "new.sh"),
        ("make -C sub", "sub/Makefile"), ("make --directory=sub a", "sub/Makefile"),
        ("make -Csub", "sub/Makefile"), ("make -fx.sh", "x.sh"), ("make --file=x.sh", "x.sh"),
        ("python pkg", "pkg/__main__.py"), ("python -mpkg", "pkg/__main__.py"),
        ("python -m pkg", "pkg/__init__.py"), ("python < x.py", "x.py"), ("sh -s <x.sh", "x.sh"),
        ("npm --prefix sub test", "sub/package.json"), ("node sub", "sub/package.json"),
        ("uv run x.py", "x.py"), ("uv run -m x", "x.py"), ("python3.14 x.py", "x.py"),
        ("cat x.sh | sh", "x.sh"), ('sh -c "$(cat x.sh)"', "x.sh"), ("eval \"`cat x.sh`\"", "x.sh"),
        ("find . -name a -exec ./x.sh {} +", "x.sh"), ("bash <data x.sh", "x.sh"),
    ],
)  # fmt: skip
def test_changed_script_has_another_digest(workspace: Path, line: str, file: str) -> None:
    before = script_contents(line, workspace, workspace).digest
    assert before is not None
    assert script_contents(line, workspace, workspace).digest == before
    (workspace / "unrelated").write_text("x")
    assert script_contents(line, workspace, workspace).digest == before
    (workspace / file).write_text("new\n")
    assert script_contents(line, workspace, workspace).digest != before


@pytest.mark.parametrize("line", ["ls -l", "cp data x", "cat data > x", "python -c 'x'"])
def test_line_without_a_file_has_no_digest(workspace: Path, line: str) -> None:
    assert script_contents(line, workspace, workspace) == ScriptContents()


def test_changed_file_changes_the_digest_or_the_line_is_unbound(tmp_path: Path) -> None:
    cases = [case.partition("\t")[::2] for case in LINES]
    for _, file in cases:
        path = tmp_path / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("old\n")
    (tmp_path / "all").touch()
    for line, file in cases:
        before = script_contents(line, tmp_path, tmp_path)
        (tmp_path / file).write_text("new\n")
        after = script_contents(line, tmp_path, tmp_path)
        assert before.unbound is not None or after.digest != before.digest, line
        assert after.unbound == before.unbound, line
        (tmp_path / file).write_text("old\n")


@pytest.mark.parametrize(
    "line",
    [
        "./x.sh", "./x.sh --all", "sh x.sh", "bash -eu x.sh", "python x.py", "python3 -u x.py a b",
        "python -m pkg", "python -c 'print(1)'", "python3 < x.py", "python3 <<'E'\nprint(1)\nE",
        "python3 - a <<'E'\nprint(1)\nE", "python3 -u - < x.py", "node - <<'E'\n1\nE",
        "node -e '1'", "perl -pe s/a/b/ data", "perl -i -pe s/a/b/ data", "make", "make -j4 test",
        "make -C sub all", "npm test", "npm run build -- --watch", "cd pkg && make", "just build",
        "timeout 60 ./x.sh", "env ./x.sh", "make 2>&1 | tee log", "make -j app",
        "python x.py | sort | head -3", "python x.py > out.txt 2>&1", "sh -c 'ls; ./x.sh'",
        "cat data | python x.py", "for x in 1 2; do ./x.sh $x; done", "test -f x.sh && ./x.sh",
        "rm -rf out", "mkdir -p a/b && cp data a/b", "mv data x", "touch x && chmod +x x",
        "tar xzf a.tgz -C sub", "unzip a.zip", "sed -i s/a/b/ data", "find . -name x -print",
        "curl -sS https://example.org/a | jq .a", "curl -o a https://example.org", "cat /etc/hosts",
        "docker ps", "systemctl status nginx", "kill 12", "ps aux | grep x", "cp data /tmp/x",
        "kubectl get pods -n x", "journalctl -u x -n 50", "echo hi > data", "git status",
    ],
)  # fmt: skip
def test_ordinary_line_is_bound(workspace: Path, line: str) -> None:
    assert script_contents(line, workspace, workspace).unbound is None


@pytest.mark.parametrize(
    "line",
    ["cat data > x.sh; ./x.sh", "cat data | tee x.sh | sh x.sh", "cat data > new.sh; ./new.sh",
     "cat data > package.json; npm test", "cat data > GNUmakefile; make",
     "./x.sh > x.py; make -f x.py", "cat data > a.mk; make -f a.mk", "cat data > hard; ./x.sh",
     "echo a > x.sh; sh -c ./x.sh"],
)  # fmt: skip
def test_line_that_writes_its_script_is_unbound(workspace: Path, line: str) -> None:
    (workspace / "package.json").unlink()
    os.link(workspace / "x.sh", workspace / "hard")
    assert script_contents(line, workspace, workspace).unbound is not None


def test_make_target_is_not_a_script(workspace: Path) -> None:
    before = script_contents("make -j4 app", workspace, workspace)
    (workspace / "app").write_text("built")
    assert script_contents("make -j4 app", workspace, workspace) == before


def test_unbound_program_is_named(workspace: Path) -> None:
    assert script_contents("ls && go run x.go", workspace, workspace).unbound == "go"


def test_program_in_the_workspace_found_by_path_is_bound(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"/usr/bin:{workspace}")
    before = script_contents("x.sh", workspace, workspace)
    (workspace / "x.sh").write_text("new\n")
    assert before.unbound is None
    assert script_contents("x.sh", workspace, workspace).digest != before.digest


def test_large_file_is_bound_by_identity_and_times(workspace: Path) -> None:
    large = workspace / "large.bin"
    large.write_bytes(bytes(9_000_000))
    before = script_contents("./large.bin", workspace, workspace).digest
    assert script_contents("./large.bin", workspace, workspace).digest == before
    large.write_bytes(bytes(8_999_999) + b"x")
    assert script_contents("./large.bin", workspace, workspace).digest != before


def test_script_arguments_are_not_part_of_the_digest(workspace: Path) -> None:
    before = script_contents("python x.py data", workspace, workspace).digest
    (workspace / "data").write_text("new\n")
    assert script_contents("python x.py data", workspace, workspace).digest == before


def test_pipe_or_folder_instead_of_a_script_does_not_block(workspace: Path) -> None:
    before = script_contents("./x.sh", workspace, workspace).digest
    (workspace / "x.sh").unlink()
    os.mkfifo(workspace / "x.sh")
    assert script_contents("./x.sh", workspace, workspace).digest not in (None, before)
    assert script_contents("./pkg", workspace, workspace).digest is not None
