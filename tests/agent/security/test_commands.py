import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.security.commands import blocked_word

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
    assert blocked_word(command, BLOCKED)


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
def test_other_commands_are_left_alone(command: str) -> None:
    assert blocked_word(command, BLOCKED) is None


def test_nothing_is_blocked_by_an_empty_list() -> None:
    assert blocked_word("rm x", ()) is None


def test_deep_nesting_ends() -> None:
    assert blocked_word("$(" * 500 + "rm x" + ")" * 500, BLOCKED) == "rm"
    assert blocked_word("eval " * 300 + "rm x", BLOCKED) == "rm"


@pytest.mark.parametrize("part", ["env ", "env x ", "$x;", "$(a) ", "x `a`; ", 'sh "$(a)" '])
def test_the_work_grows_with_the_length_of_the_line_and_not_faster(part: str) -> None:
    # Quadratic work would take minutes here; the suite's time limit would end it.
    assert blocked_word(part * (9_000 // len(part)), BLOCKED) is None
    assert blocked_word(part * (9_000 // len(part)) + "; rm x", BLOCKED) == "rm"
    assert blocked_word(part * (200_000 // len(part)) + "; rm x", BLOCKED) == "rm"


@given(st.text(alphabet=" ;|&$()`'\"\\\nrm<>{}=-ax1", max_size=40))
def test_any_text_gets_an_answer(command: str) -> None:
    assert blocked_word(command, BLOCKED) in (None, *BLOCKED)


@given(st.text(alphabet=" ax;|&1-\n", max_size=20))
def test_a_blocked_last_command_is_always_found(before: str) -> None:
    assert blocked_word(before + "\nrm x", BLOCKED) == "rm"
