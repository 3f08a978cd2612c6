from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.security.shell.classifier import classify, find_blocked_word
from agent.security.shell.parser import parse_script
from agent.security.shell.path_scope import NO_SANDBOX, SandboxScope

BLOCKED = ("rm", "sudo", "shutdown", "format", "del")


@pytest.mark.parametrize(
    "command",
    [
        "rm x", "rm", " rm -rf /", "/bin/rm x", "../../bin/rm x", "\\rm x", "'rm' x", 'r"m" x',
        "r\\m x", "r\\\nm x", "RM x", "ls; rm x", "ls;rm x", "ls && rm x", "ls||rm x",
        "ls | rm x", "ls & rm x", "ls\nrm x", "(rm x)", "{ rm x; }", "! rm x", "$(rm x)",
        "`rm x`", "echo $(rm x)", 'echo "$(rm x)"', 'echo "`rm x`"', "echo `rm x`",
        "echo $(ls $(rm x))", "cat <(rm x)", "A=1 rm x", "A=1 B=2 rm x", "A=$(rm x)",
        "A=$(rm x) ls", "sudo ls", "env rm x", "env A=1 rm x", "env -u X rm x", "env -S 'rm x'",
        "xargs rm", "ls | xargs -n 1 rm", "xargs -I {} rm {}", "nohup rm x &", "time rm x",
        "timeout 5 rm x", "timeout -k 1 5s rm x", "nice -n 5 rm x", "exec rm x",
        "command rm x", "busybox rm x", "find . -exec rm {} \\;", "find . -name x -execdir rm {} +",
        "sh -c 'rm x'", 'bash -lc "ls; rm x"', "eval 'rm x'", "eval rm x", "ssh host rm x",
        "if true; then rm x; fi", "for f in *; do rm $f; done", "while true; do rm x; done",
        "case a in a) rm x;; esac", "f() { rm x; }", ">f rm x", "2>f rm x", "ls >f; rm x",
        "ls &>f; rm x", "ls &>f rm x", "cat <<EOF\nEOF\nrm x", "X=rm; $X x", "rm$IFS-rf", "{rm,x}",
        "echo 'unclosed; rm x", "trap 'rm x' EXIT", "alias l='rm x'", "echo > $(rm x)",
        "echo hi |& rm x", "shutdown now", "cd / && del x", "sh -c \"sh -c 'rm x'\"",
    ],
)  # fmt: skip
def test_blocked_word_in_command_position_is_found(command: str) -> None:
    assert find_blocked_word(command, BLOCKED)


@pytest.mark.parametrize(
    "command",
    [
        "", "ls", "ls -la", "echo rm", "echo 'rm x'", "git rm x", "cat rm", "cat rm.txt",
        "farm x", "rmdir x", "./rm.sh", "grep -r rm .", "npm run format", "ls > rm", "ls 2>&1",
        "git commit -m 'rm the old; del the new'", "echo a; echo rm", "format-all x",
        "docker run x rm", "A=rm ls", "time echo rm", "python -c 'print(1)'", "$X y",
        "for f in rm del; do echo $f; done", "ls # rm", "[ -f x ] && echo yes", "echo {a,b}",
        "env A=1 ls", "timeout 5 ls", "find . -name rm", "cat <<EOF\nhello\nEOF",
    ],
)  # fmt: skip
def test_other_commands_are_not_blocked(command: str) -> None:
    assert find_blocked_word(command, BLOCKED) is None


def test_empty_list_blocks_nothing() -> None:
    assert find_blocked_word("rm x", ()) is None


def test_blocked_word_is_found_in_deep_nesting() -> None:
    assert find_blocked_word("$(" * 500 + "rm x" + ")" * 500, BLOCKED) == "rm"
    assert find_blocked_word("eval " * 300 + "rm x", BLOCKED) == "rm"


@pytest.mark.parametrize("part", ["env ", "env x ", "$x;", "$(a) ", "x `a`; ", 'sh "$(a)" '])
def test_search_takes_linear_time(part: str) -> None:
    # Quadratic work would take minutes and exceed the suite's time limit.
    assert find_blocked_word(part * (9_000 // len(part)), BLOCKED) is None
    assert find_blocked_word(part * (9_000 // len(part)) + "; rm x", BLOCKED) == "rm"
    assert find_blocked_word(part * (200_000 // len(part)) + "; rm x", BLOCKED) == "rm"


@given(st.text(alphabet=" ;|&$()`'\"\\\nrm<>{}=-ax1", max_size=40))
def test_any_text_gets_an_answer(command: str) -> None:
    assert find_blocked_word(command, BLOCKED) in (None, *BLOCKED)


@given(st.text(alphabet=" ax;|&1-\n", max_size=20))
def test_blocked_last_command_is_always_found(before: str) -> None:
    assert find_blocked_word(before + "\nrm x", BLOCKED) == "rm"


HARMLESS = Path(__file__).with_name("harmless_commands.txt")


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    root = tmp_path / "workspace"
    (root / "src").mkdir(parents=True)
    (root / "src" / "a.py").write_text("x = 1\n")
    (tmp_path / "outside").mkdir()
    (root / "link").symlink_to(tmp_path / "outside")
    return root


IN_SANDBOX = SandboxScope(
    has_own_network=True,
    service_ports=frozenset({5432}),
    temporary="/tmp",
)


def kind_of(
    command: str, workspace: Path, folder: str = ".", sandbox: SandboxScope = NO_SANDBOX
) -> str:
    return classify(parse_script(command), (workspace / folder).resolve(), workspace, sandbox)


@pytest.mark.parametrize(
    "command",
    [
        "ls -la src", "cat src/a.py | head -n 5", "git status", "git log --oneline | cat",
        "rg x src", "find . -name '*.py' -not -path './x/*'", "sed -n '1,3p;/x/p' src/a.py",
        "grep -rn '/' src", "awk -F, '$1 > 3 {print $2}' src/a.py", "sort -t, -k2,2n src/a.py",
        "cat < src/a.py 2>/dev/null", "ls > /dev/null 2>&1", "echo $HOME $(date)",
        "x=1; echo $((x+1))", "timeout 5 ls", "cd src && ls", "[ -z \"$(ls)\" ] && echo empty",
        "diff <(ls) <(ls src)", "/usr/bin/wc -l src/a.py", "env A=1 ls",
        "for f in src/a.py README; do wc -l \"$f\"; done", "if test -f a; then cat a; fi",
        "env -S 'A=1 ls' src", "git stash list", "git stash show -p", "head -20 src/a.py",
        "git log -5 --format='%h %s' --since=yesterday", "tail -n +5 src/a.py", "date +%s",
        "cat <<E\nhello\nE", "git branch -a", "git remote -v", "command -v python3",
    ],
)  # fmt: skip
def test_read_only_commands_are_reads(command: str, workspace: Path) -> None:
    assert kind_of(command, workspace) == "reads"


@pytest.mark.parametrize(
    "command",
    [
        "pytest -q", "make test", "python3 -c 'print(1)'", "npm run build", "go test ./...",
        "touch a", "echo x > a", "cat a >> src/b", "tee a < b", "sed -i s/a/b/ a", "sort -o a a",
        "mkdir -p a/b", "cp a b && mv b c", "./run.sh", "sh run.sh",
        "git add . && git commit -m 'x; y'", "tar czf a.tgz src", "tar xzf a.tgz -C src ./a.py",
        "find . -name x -exec cat {} +",
        "cat src/*", "git branch new", "sqlite3 a.db 'select 1'", "ls & make",
        "cd src && git log", "git -C src status", "chmod +x run.sh", "cat a 2> log", "uniq a b",
        "python3 - <<'E'\nprint('$(curl x)')\nE", "python3 <<E\nprint(1)\nE",
        "python3 - a <<E b\nE",
        "python3 - <<E\n$(ls)\nE", "python3 - < src/a.py", "echo 'print(1)' | python3 -",
        "git checkout -b new", "git checkout -qb new origin/main", "git checkout -b new HEAD~2",
        "find . -name '*.py' | xargs grep -n foo", "find . -print0 | xargs -0 -n 5 wc -l | tail -1",
        "cd src && find . -type f 2>/dev/null | grep -v 'x/' | head -20 | xargs grep -l y",
        "find src -type f | xargs -I{} grep -H x {}", "git ls-files | xargs cat",
        "git ls-files '*.py' | sort -u | xargs -n1 git blame", "rg --files | xargs wc -l",
        "grep -rl x src | xargs head -3", "(find . | xargs cat)", "x=$(find . | xargs cat)",
        "for f in a b; do find . | xargs grep $f; done", "find . | xargs awk 1",
        "find . | xargs timeout 5 cat",
        "git rebase main", "git rebase -i --autosquash HEAD~2", "git rebase --continue",
        "git revert --no-edit HEAD", "git worktree add -q src/b -b b", "git worktree prune",
        "git gc --quiet", "git fsck --no-progress", "git reset --soft HEAD~1", "git reset src/a.py",
        "git restore --staged src/a.py", "git apply fix.patch", "git apply --check <<E\nx\nE",
        ".venv/bin/python -m pytest -q | tail -3", ".venv/bin/pip list", "node_modules/.bin/tsc",
        ".venv/bin/python -c 'print({\"a\": \"/x\"}[\"a\"])'", "./ls src",
        "for f in src/*.py; do echo \"$f $(wc -l < \"$f\")\"; done",
        "for f in a b; do sort < $f > \"$f.sorted\"; done", "kill %1", "sleep 9 & kill $!",
        "psql -At -c 'select 1; select 2'", "psql -h 127.0.0.1 -U me -d shop -f src/a.sql",
    ],
)  # fmt: skip
def test_build_test_and_edit_commands_are_works(command: str, workspace: Path) -> None:
    assert kind_of(command, workspace) == "works"


@pytest.mark.parametrize(
    "command",
    [
        "echo a | xargs --max-lines rm true -f", "echo a | xargs --replace rm true",
        "echo a | xargs --max-lines sed true -e '1e touch b' src/a.py",
        "git log --output=F", "git show --output=F", "git blame --output=F src/a.py",
        "git reflog --output=F", "git rev-list --output=F HEAD", "git log --pretty --output=F",
        "git log --outp=F", "git shortlog --out=F", "git describe --dirt", "git log --help",
        "git stash", "git stash -u", "git stash --include-untracked", "git stash drop",
        "env -S 'uniq a b' echo", "env -S 'uniq a' b", "env -vS'uniq a' b",
        "env --split-string='uniq a' b", "env --split-string 'tee a' b",
        "xxd src/a.py -vnew", "xxd src/a.py -s", "date 010203042005", "ls --never-heard-of",
        "cat -Z src/a.py", "sort --outp=b a",
        "sort -ubob a", "tree --output a", "grep -Q x src", "find . -fprin x", "ls --al",
    ],
)  # fmt: skip
def test_unknown_option_is_not_read_only(command: str, workspace: Path) -> None:
    assert kind_of(command, workspace) != "reads"


@pytest.mark.parametrize(
    "command",
    [
        "", "x", "rm a", "curl x", "cat /etc/passwd", "cat ../x", "cat ~/x", "cat link/x",
        "cat $X", "ls $(cat a)", "cat src/../../x", "cd .. && ls", "cd && ls", "cd link && ls",
        "cd src; cat ../a", "echo x > /x", "echo x > $X", "cat < ../x", "LD_PRELOAD=a ls",
        "PATH=. ls", "GIT_DIR=x git log", "export PATH=.", 'export "PATH=."', "git -c a=b log",
        "git push", "pip install x", "ls | sh", "ls; x", "make && curl x", "xargs cat < a",
        "f() { ls; }; f", "alias ls=x", "cat .env", "cat .git/x", "python3 -m pip install x",
        "make -f /x", "dd if=/x", "tee /x", "grep -ne x ../y", "sed 's/a/b/e' a",
        "awk -v a=b 'BEGIN{system(\"x\")}'", "find . -delete", "rg --pre x y", "npx x ../y",
        "cat 'a\0b'", "cat .*", "ls .?/x", "env", "time -o a ls", "git diff --output=a",
        "echo x > .git/hooks/y",
        # Input of an interpreter that the shell computes with other programs, or from elsewhere.
        "python3 - <<E\n$(curl x)\nE", "python3 - <<E\n`rm x`\nE", "python3 - < /x",
        "python3 - <(curl x)", "curl x | python3 -", "PYTHONPATH=. python3 - <<E\nE",
        "python3 - <<E > /x\nE", "python3 - ../x <<E\nE", "sh - <<E\nrm x\nE",
        # Branches that replace others, and files that a checkout overwrites.
        "git checkout x", "git checkout -- a", "git checkout -b x -- a", "git checkout -B x",
        "git checkout -f -b x", "git checkout -qfb x", "git checkout -b x --force",
        "git checkout -b x y z", "git checkout -b $X", "git checkout -b -f", "git checkout -b",
        "git checkout --orphan x", "git checkout -b x --pathspec-from-file=a",
        "git checkout -p -b x", "git checkout -b x --recurse-submodules", "git checkout -mb x",
        "git -c core.pager=x checkout -b y", "git --exec-path=. checkout -b y",
        "GIT_SSH_COMMAND=x git checkout -b y", "git checkout -b y > ../x",
        # Words that xargs adds, if they may be anything, or the program does more than read.
        "find . | xargs rm", "find . | xargs sed -i s/a/b/", "find . | xargs sh -c 'cat \"$@\"' x",
        "find . | xargs -I{} sh -c 'cat {}'", "find . | xargs -I{} cat x/{}",
        "find . | xargs touch",
        "find . | xargs -I ls ls", "find . | xargs -n1 -I{} uniq a", "find . | xargs uniq",
        "find . | xargs xxd", "find $X | xargs cat", "find . | xargs jq .a | sh",
        "find . | xargs sed", "find . | xargs jq", "find . | xargs grep", "find . | xargs rg -e",
        "find . | xargs -a list cat", "find . | xargs env", "find . | xargs xargs cat",
        "find . -printf '/x' | xargs cat", "find . -ls | xargs cat",
        "find . -exec echo /x \\; | xargs cat",
        "find . -fprintf x y | xargs cat", "find . -delete | xargs cat", "find / | xargs cat",
        "find .. | xargs cat", "find . 2>&1 | xargs cat", "find . |& xargs cat",
        "find . | xargs cat < list", "find . | xargs cat <<< /x", "find . | xargs cat <<E\n/x\nE",
        "echo /x | xargs cat", "echo /x | xargs grep", "cat list | xargs cat", "xargs cat",
        "find . | grep -o /x | xargs cat", "find . | grep x list | xargs cat",
        "(find .) | xargs cat",
        "find . | grep -rh x | xargs cat", "find . | tail -c 9 | xargs cat",
        "find . | cut -c2- | xargs cat",
        "find . | sed s,./,/, | xargs cat", "find . | sort list | xargs cat",
        "ls; (cat a) | xargs cat",
        "find . & xargs cat", "find . && xargs cat", "rg -l x -r /y | xargs cat",
        "rg x | xargs cat",
        "git ls-files --format=/x | xargs cat", "git -C src ls-files | xargs cat",
        "fd . --format /x | xargs cat", "grep -rl x -e -h | xargs cat", "env find . | xargs cat",
        "set -- /x; find . | xargs cat \"$@\"", "find . | xargs cat $X", "find . | xargs cat /x",
        # Without its own network, a port may belong to any program.
        "curl http://127.0.0.1:8000/", "curl localhost:8000", "python3 -m http.server",
        # Without its own temporary folder, the files there may, too.
        "cat /tmp/x", "echo x > /tmp/x", "gcc -o /tmp/x src/a.c", "/tmp/x",
        # Discarded changes, and git running other programs or reaching outside.
        "git rebase -x 'rm x' main", "git rebase --exec=x main", "git rebase -s x main",
        "git revert -e HEAD", "git worktree add ../x", "git worktree add -B x src/x",
        "git worktree remove src/x", "git worktree move src/x ../x", "git gc --prune=now",
        "git fsck --lost-found", "git reset --hard", "git reset --merge", "git restore src/a.py",
        "git restore --staged --worktree src/a.py", "git restore -s HEAD --staged src/a.py",
        "git apply --unsafe-paths x", "git apply --directory=../x a",
        # Programs of the workspace that are known by their name, and links to folders outside.
        ".venv/bin/pip install x", ".venv/bin/python -m pip install x", "link/program",
        ".venv/bin/python ../x.py", "./psql -f ../x", "../program", "./.env",
        # Files named by a loop.
        "for f in /x a; do wc -l < $f; done", "for f in *.py; do sort $f > $f.sorted; done",
        "for f in a ../b; do echo x > $f; done", "for f in a b; do cat < $f$X; done",
        "psql -f ../x", "psql -o /x -c 'select 1'", "kill 1 > /x",
    ],
)  # fmt: skip
def test_other_commands_are_unknown(command: str, workspace: Path) -> None:
    assert kind_of(command, workspace) == ("reads" if command == "" else "unknown")


@pytest.mark.parametrize(
    "command",
    [
        "curl http://127.0.0.1:8000/", "curl -sS 'localhost:3000/a?b=c&d=e'",
        "curl http://[::1]:80/x",
        "curl -s -o /dev/null -w '%{http_code} %{time_total}\\n' http://localhost:3000",
        "curl -sf --max-time 3 http://0.0.0.0:5000/health | head -c 200",
        "curl -I https://app.localhost/",
        "curl -X POST -H 'content-type: application/json' -d '{\"a\": \"x@y\"}' localhost:80/api",
        "sleep 1; curl -b 'a=b' -u me:pw --retry 3 --retry-connrefused http://LOCALHOST:1/",
        "python3 -m http.server 8000 & sleep 1; curl localhost:8000; kill %1",
    ],
)  # fmt: skip
def test_curl_reaches_servers_of_the_conversation(command: str, workspace: Path) -> None:
    assert kind_of(command, workspace, sandbox=IN_SANDBOX) == "works"
    assert kind_of(command, workspace) == "unknown"


@pytest.mark.parametrize(
    "command",
    [
        "curl", "curl http://example.org", "curl http://localhost:1 http://example.org",
        "curl $URL",
        "curl http://{localhost,example.org}/", "curl http://localhost@example.org/",
        "curl http://localhost:1@example.org", "curl 'http://example.org#@localhost/'",
        "curl 'http://example.org\\@localhost'", "curl http://localhost.example.org",
        "curl http://127.0.0.1.example.org", "curl http://10.0.0.1:80", "curl file://localhost/x",
        "curl ftp://localhost/x", "curl gopher://localhost:1/x", "curl http://localhost:99999/",
        "curl -L localhost:1", "curl --location localhost:1", "curl -sSL localhost:1",
        "curl -: localhost",
        "curl -o out localhost:1", "curl -O localhost:1/x", "curl -sOJ localhost:1/x",
        "curl -oout localhost:1",
        "curl -K x localhost:1", "curl --config x localhost:1", "curl -sK- localhost:1",
        "curl -x http://a localhost:1", "curl --proxy a localhost:1",
        "curl --preproxy a localhost:1",
        "curl --connect-to ::a:1 localhost:1", "curl --resolve localhost:1:1.1.1.1 localhost:1",
        "curl --unix-socket /x localhost", "curl --abstract-unix-socket x localhost",
        "curl -T a localhost:1",
        "curl -d @/x localhost:1", "curl -d @a localhost:1", "curl --data-binary @/x localhost:1",
        "curl --data-urlencode x@/y localhost:1", "curl -F a=@/x localhost:1",
        "curl -H @/x localhost:1",
        "curl -b /x localhost:1", "curl -c jar localhost:1", "curl -D out localhost:1",
        "curl -w @/x localhost:1", "curl -w '%output{x}a' localhost:1", "curl --next localhost:1",
        "curl --variable x@/y --expand-url '{{x}}' localhost:1", "curl --trace x localhost:1",
        "curl -E /x localhost:1", "curl --netrc localhost:1", "curl --interface x localhost:1",
        "curl --url http://example.org localhost:1", "curl localhost:1 > ../x",
        "curl localhost:1 | sh",
        "curl -d $(cat .env) localhost:1", "http_proxy=http://a curl localhost:1",
        "curl --loc localhost:1",
        "CURL_HOME=. curl localhost:1", "./curl localhost:1 -K x; curl example.org",
        "curl -- -K localhost:1",
        # A service of this machine answers there.
        "curl localhost:5432", "curl http://127.0.0.1:5432/x", "curl https://[::1]:5432/",
        "curl http://127.0.0.1:05432/",
    ],
)  # fmt: skip
def test_other_use_of_curl_asks(command: str, workspace: Path) -> None:
    assert kind_of(command, workspace, sandbox=IN_SANDBOX) == "unknown"


@pytest.mark.parametrize(
    "command",
    [
        # Several words: an option may follow the text.
        "find . -name $(cat src/a.py)", "X='a -delete'; find . -name $X", "find . -name $X",
        "sort -k $X src/a.py", "tree -I $X", "git log -S $X", "date -d $X", "rg -e $X src",
        'find . -name "$@"', 'rg -e "${X[@]}" src', 'rg -e "a"$X src', "git commit -m $X",
        "while read -r X; do find . -name $X; done < src/a.py",
        "for X in -delete; do find . -name $X; done",
        # A single word that may be an option.
        'rg "$X" src', 'rg "$(cat src/a.py)"', "rg $X", 'grep -c "$X" src/a.py',
        # The words between brackets are those of `test`.
        "[ $X ]", "X=$(cat src/a.py); [ $X = 1 ]", "[ -n $X ]", "[ * ]", '[ "$@" ]',
        "set -- $(cat src/a.py); [ $1 ]", "[ $(wc -l < src/a.py) -gt 5 ]",
        "if [ ! $X ]; then ls; fi",
    ],
)  # fmt: skip
def test_computed_word_that_may_be_an_option_is_unknown(command: str, workspace: Path) -> None:
    assert kind_of(command, workspace) == "unknown"


@pytest.mark.parametrize(
    "command",
    [
        'find . -name "$X"', 'rg -e "$X" src', 'rg -- "$X" src', 'rg "x$X" src', "echo $X",
        'git log --grep "$(cat src/a.py)"', "for i in 1 2; do [ $i -eq 2 ] && echo $i; done",
        'for X in a b; do rg "$X" src; done', "for X in a b; do find . -name $X; done",
        '[ "$(wc -l < src/a.py)" -gt 5 ]', '[ -z "$(git status --porcelain)" ]', "[ $? -ne 0 ]",
        '[ -n "$X" ] && [ "$X" != "$Y" ]', "[ -d src ] && [ ! -e build ]", "seq $X", "tr $X b",
        'rg -e "$(echo "a" | tr a b)" src', "expr $X + 1",
    ],
)  # fmt: skip
def test_computed_word_that_stays_text_is_harmless(command: str, workspace: Path) -> None:
    assert kind_of(command, workspace) == "reads"


def test_quoted_text_of_a_heredoc_is_one_word(workspace: Path) -> None:
    command = 'git commit -m "$(cat <<\'E\'\nFix it (and "that")\nE\n)"'
    assert kind_of(command, workspace) == "works"


@pytest.mark.parametrize(
    ("command", "kind"),
    [
        ("psql -c 'select 1'", "unknown"), ("psql -f src/a.sql", "unknown"),
        ("redis-cli FLUSHALL", "unknown"), ("echo 'DROP TABLE t' | mysql", "unknown"),
        ("sh -c 'mariadb -e x'", "unknown"), ("ls | xargs -n1 psql -c", "unknown"),
        (".venv/bin/psql -c x", "unknown"), ("/usr/bin/psql -c x", "unknown"),
        ("pytest -q", "works"), ("pg_isready -h localhost", "works"), ("cat src/a.py", "reads"),
    ],
)  # fmt: skip
def test_clients_of_a_service_with_lasting_data_ask(
    command: str, kind: str, workspace: Path
) -> None:
    sandbox = SandboxScope(lasting_services=("127.0.0.1:5432",))
    assert kind_of(command, workspace, sandbox=sandbox) == kind


@pytest.mark.parametrize(
    ("command", "kind"),
    [
        ("cat /tmp/x", "reads"), ("cat < /tmp/x", "reads"), ("echo x > /tmp/a/b", "works"),
        ("gcc -o /tmp/x src/a.c && /tmp/x 3", "works"), ("cp src/a.py /tmp", "works"),
        ("ls /tmp/*.log", "works"), ("tar czf /tmp/a.tgz -C src .", "works"),
        ("cat /tmp/../etc/passwd", "unknown"), ("cat /tmp/a/../../x", "unknown"),
        ("cat /tmpx", "unknown"), ("cat /tmp/.ssh/x", "unknown"), ("cat //tmp/x", "unknown"),
        ("cd /tmp && ls", "unknown"), ("rm /tmp/x", "unknown"), ("cat $X/tmp/x", "unknown"),
        ("cat /var/tmp/x", "unknown"),
    ],
)  # fmt: skip
def test_temporary_files_are_own_in_a_sandbox(command: str, kind: str, workspace: Path) -> None:
    assert kind_of(command, workspace, sandbox=IN_SANDBOX) == kind


def test_workspace_in_the_temporary_folder_is_judged_by_its_links(workspace: Path) -> None:
    sandbox = SandboxScope(temporary=str(workspace.parent))
    assert kind_of(f"cat {workspace}/src/a.py", workspace, sandbox=sandbox) == "reads"
    assert kind_of(f"cat {workspace}/link/a", workspace, sandbox=sandbox) == "unknown"
    assert kind_of("cat link/a", workspace, sandbox=sandbox) == "unknown"


@pytest.mark.parametrize(
    ("command", "kind"),
    [
        ("/env/bin/python -m pytest -q", "works"), ("/env/bin/pytest -k 'a b'", "works"),
        ("/env/bin/ls src", "works"), ("/env/bin/pip list", "works"),
        ("/env/bin/pip install x", "unknown"), ("/env/bin/python /env/x.py", "unknown"),
        ("/env/bin/unheard-of", "unknown"), ("/env/../bin/python x", "unknown"),
        ("/env/bin/py*", "unknown"), ("/environment/bin/python x", "unknown"),
        ("/other/bin/python x", "unknown"), ("/env/bin/rm x", "unknown"),
        ("PYTHONPATH=. /env/bin/python x", "unknown"), ("/env/bin/python ../x", "unknown"),
    ],
)  # fmt: skip
def test_known_programs_that_the_sandbox_shows_work(
    command: str, kind: str, workspace: Path
) -> None:
    sandbox = SandboxScope(programs=("/env",))
    assert kind_of(command, workspace, sandbox=sandbox) == kind
    assert kind_of(command, workspace) == "unknown"


def test_link_to_a_program_counts_as_a_program_of_the_workspace(workspace: Path) -> None:
    (workspace / ".venv/bin").mkdir(parents=True)
    (workspace / ".venv/bin/python").symlink_to("/usr/bin/python3")
    assert kind_of(".venv/bin/python -m pytest -q", workspace) == "works"
    assert kind_of(".venv/bin/python -m http.server", workspace) == "unknown"
    assert kind_of("cat .venv/bin/python", workspace) == "unknown"


@pytest.mark.parametrize(
    "command",
    [
        # Arithmetic, expansions, loops and redirections.
        ": $((PATH=5))", ": $[PATH=5]", ": $((HOME++))", ": ${PATH:=5}", ": ${GIT_DIR=5}",
        "((LD_PRELOAD=5))", "for PATH in 5; do ls; done", "for ((PATH=5;;)); do ls; done",
        "echo ${X: PATH=5}", "echo ${X:0:PATH=5}", ": {PATH}>/dev/null", "echo {HOME}</dev/null",
        "ls {PATH}>&1", ": {PATH}\\\n>/dev/null", ": {PATH[0]}>/dev/null",
        "declare 'x=PATH=5'; : $((x))", "read x < src/a.py; : $((x))",
        # Builtins that set variables or remove them.
        "wait -p PATH", "wait -pPATH", "wait -np PATH", "wait $X", 'wait "$X"', "wait *",
        "wait -n $X", "sleep 1 & wait -p PATH; git status", "builtin wait -p PATH",
        "printf -v PATH 5", "printf -vPATH 5", "printf -v A -v PATH 5", "printf $X",
        "printf \"$A\" \"$B\" 5", "printf -v $X 5", "printf *", "printf $(cat src/a.py) 5",
        "printf {-vPATH,5}", "command printf -v PATH 5", "printf \"\\\n-vPATH\" \"$X\"",
        "read PATH", "read -r PATH < src/a.py", "read -aPATH < src/a.py", "read -ra PATH",
        "read -raPATH < src/a.py", "read *", "read $X", "echo 5 | read HOME",
        "getopts x PATH", "mapfile PATH", "mapfile -t HOME < src/a.py", "let PATH=5",
        "export PATH=5", "export 'GIT_DIR=x'", "export *", "export $X", "export -n HOME",
        "declare -x BASH_ENV=a", "declare $X", "typeset PATH=5", "readonly HOME", "local PATH=5",
        "unset HOME", "unset -v GIT_CONFIG_NOSYSTEM", "unset P*", "unset $X",
        # Commands that turn arguments into variables or clear them.
        "set -k", "set -o keyword", "set -ek", "set -eo keyword", "set $X", "set -e $X", "set *",
        "set -k; git status GIT_CONFIG_GLOBAL=a", "set -o $X", "set - -k",
        "env PATH=5 ls", "env -i git status", "env - git status", "env -u PATH git status",
        "env -uHOME git status", "env --unset=GIT_CONFIG_NOSYSTEM git status",
        "env --ignore-environment ls", "exec -c git status", "time PATH=5 ls",
        # The name of a tested variable is an expression.
        "test *", "test $X", "test $X = a", 'test "$@"', "test \"$A\" \"$B\"", "test ?v a",
        'test -v "$X"', '[ -v "$X" ]', "[ ! -v $X ]",
        # Before commands that work without a question.
        "PYTHONPATH=. python3 - <<E\nE", ": $((PYTHONPATH=5)); python3 - <<E\nE",
        "read NODE_OPTIONS < a; node -e 1", "wait -p HOME; git checkout -b x",
        ": {GIT_DIR}>/dev/null; git checkout -b x", "export GIT_DIR; git checkout -b x",
        "wait -p PATH; find . | xargs cat", "find . | PATH=. xargs cat",
        "find . | xargs env PATH=. ls",
        "printf -vPATH 5; curl localhost:1", "read CURL_HOME; curl localhost:1",
        ": ${http_proxy:=5}; curl localhost:1",
    ],
)  # fmt: skip
def test_line_that_may_set_a_risky_variable_is_unknown(command: str, workspace: Path) -> None:
    assert kind_of(command, workspace, sandbox=IN_SANDBOX) == "unknown"


@pytest.mark.parametrize(
    "command",
    [
        "set -euo pipefail; ls", "set -ex", "set -- $X; ls", "set +e", "wait", "wait $!; ls",
        "wait 5", "wait %1", "wait -n", "ls & wait $!", "printf '%s\\n' a \"$X\"",
        'printf "a: $X"', "printf %s $X", "printf -v line x", "printf -- a", "printf '*'",
        "read -r line < src/a.py", "while read -r a b; do echo $a; done < src/a.py",
        "export FOO=1 BAR=$X", "declare -a list", "local x=$1", "unset x", "x=1; : $((x+=1))",
        'test -n "$X"', 'test "$X" = "$Y"', "test $? -eq 0", "test $# -gt 1", "test a = '*'",
        "env -u FOO ls", "env FOO=1 ls *.py | cat", "test -f src/a.py && ls", "[ -v FOO ]",
        '[ -n "$X" ]', "awk '{print $1}' < src/a.py", "exec ls", "x=a; echo ${x:0:1} ${x: -1}",
    ],
)  # fmt: skip
def test_line_that_sets_other_variables_keeps_its_class(command: str, workspace: Path) -> None:
    assert kind_of(command, workspace) in ("reads", "works")


def test_paths_are_relative_to_the_folder_of_the_command(workspace: Path) -> None:
    assert kind_of("cat ../README.md", workspace, "src") == "reads"
    assert kind_of("cat ../../x", workspace, "src") == "unknown"
    assert kind_of(f"cat {workspace}/src/a.py", workspace, "src") == "reads"
    assert kind_of("ls", workspace, "..") == "unknown"


def test_reading_a_repository_that_runs_programs_is_work(workspace: Path) -> None:
    config = workspace / ".git" / "config"
    config.parent.mkdir()
    config.write_text("[core]\n\tbare = false\n")
    assert kind_of("git status", workspace) == "reads"
    config.write_text("[core]\n\tfsmonitor = touch x\n")
    assert kind_of("git status", workspace) == "works"
    assert kind_of("git diff", workspace, "src") == "works"


def test_bare_repository_layout_is_not_trusted(workspace: Path) -> None:
    (workspace / "src" / "objects").mkdir()
    (workspace / "src" / "HEAD").write_text("ref: refs/heads/main\n")
    assert kind_of("git log", workspace, "src") == "works"


def test_nine_in_ten_harmless_commands_need_no_approval(workspace: Path) -> None:
    lines = HARMLESS.read_text("utf-8").splitlines()
    texts = [line for line in lines if line and kind_of(line, workspace) == "unknown"]
    assert len(texts) < len(lines) / 10, "\n".join(texts)
