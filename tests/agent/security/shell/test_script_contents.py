"""Which files' contents a consent to a command is bound to."""

import os
from pathlib import Path

import pytest

from agent.security.shell.script_contents import contents_digest


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
def test_a_changed_script_has_another_digest(workspace: Path, line: str, file: str) -> None:
    before = contents_digest(line, workspace, workspace)
    assert before is not None
    assert contents_digest(line, workspace, workspace) == before
    (workspace / "unrelated").write_text("x")
    assert contents_digest(line, workspace, workspace) == before
    (workspace / file).write_text("new\n")
    assert contents_digest(line, workspace, workspace) != before


@pytest.mark.parametrize("line", ["ls -l", "pytest -q data", "git commit -m x.py", "python -c 'x'"])
def test_what_runs_no_script_is_bound_to_none(workspace: Path, line: str) -> None:
    assert contents_digest(line, workspace, workspace) is None


def test_what_comes_behind_the_script_is_not_bound(workspace: Path) -> None:
    before = contents_digest("python x.py data", workspace, workspace)
    (workspace / "data").write_text("new\n")
    assert contents_digest("python x.py data", workspace, workspace) == before


def test_a_pipe_or_a_folder_in_place_of_a_script_blocks_nothing(workspace: Path) -> None:
    before = contents_digest("./x.sh", workspace, workspace)
    (workspace / "x.sh").unlink()
    os.mkfifo(workspace / "x.sh")
    assert contents_digest("./x.sh", workspace, workspace) not in (None, before)
    assert contents_digest("./pkg", workspace, workspace) is not None
