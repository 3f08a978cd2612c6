import itertools
import subprocess
import sys
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.security.shell.ast import Redirect
from agent.security.shell.parser import parse_script

# Special characters of shells, so that random lines are often nearly valid.
PIECES = [
    "rm", "x", " ", " ", "\n", ";", "|", "&", "&&", "(", ")", "$(", "`", "'", '"', "\\", "\\\n",
    "{", "}", "<", ">", "<<E\n", "\nE\n", "<<'E'\n", "<<<", "#", "$", "${x:-", "$((", "))", "[[ ",
    " ]]", "[", "=", "if ", "then ", "fi", "for x in ", "do ", "done", "case x in ", "esac",
    "eval ", "env ", "sh -c ", "find . -exec ", "xargs ", "-n ", "f() ", "~", "*", "\0", "\r",
    "é", "\ud800", "\u200b",
]  # fmt: skip


def argvs(command: str) -> list[tuple[str | None, ...]]:
    return [parsed.argv for parsed in parse_script(command).commands]


@pytest.mark.parametrize(
    ("word", "value"),
    [
        ("abc", "abc"), ("'a b'", "a b"), ('"a b"', "a b"), (r"a\ b", "a b"),
        ("a'b'\"c\"", "abc"), (r'"\$x \" \a"', r'$x " \a'), (r"$'\x41\102\u0043\n'", "ABC\n"),
        (r"$'a\0b'c", "ac"), ("'$x'", "$x"), (r"\$x", "$x"), ("$", "$"), ("a$", "a$"),
        ("{}", "{}"), ("*.md", "*.md"), ("~/x", "~/x"), ("$x", None), ('"$x"', None),
        ("a${x}b", None), ("$(ls)", None), ("`ls`", None), ("{a,b}", None), ("{1..3}", None),
        ("$((1+1))", None), ("''", ""),
    ],
)  # fmt: skip
def test_words_have_the_value_that_the_program_receives(word: str, value: str | None) -> None:
    script = parse_script(f"echo {word}")
    assert script.commands[0].argv == ("echo", value)
    assert script.opaque_reason is None


@pytest.mark.parametrize(
    "command",
    [
        "a; b", "a && b", "a || b", "a | b", "a & b", "a\nb", "(a; b)", "{ a; b; }", "! a; b",
        "if a; then b; fi", "while a; do b; done", "for x in 1; do a; b; done", "a $(b)",
        'a "$(b)"', "a `b`", "a <(b)", "a > >(b)", "case $(a) in x) b;; esac", "a <<E\n$(b)\nE",
        'a <<< "$(b)"', "x=$(a; b)", "a ${x:-$(b)}", "a > $(b)", "a <<E | b\nE", "a <<E && b\nE",
    ],
)  # fmt: skip
def test_every_simple_command_is_found(command: str) -> None:
    script = parse_script(command)
    assert {"a", "b"} == {command.argv[0] for command in script.commands if command.argv}
    assert script.opaque_reason is None


@pytest.mark.parametrize(
    "command",
    [
        "env -i A=1 a b", "env -u X a b", "nohup a b", "nice -n 5 a b", "nice -5 a b",
        "time -p a b", "timeout -k 1s 5 a b", "timeout --signal=KILL 5 a b", "command -p a b",
        "exec -a x a b", "sudo -u root -- a b", "xargs -0 -n 1 a b", "stdbuf -oL a b",
        "busybox a b", "setsid a b", "find . -exec a b \\;",
        "find . -name x -execdir a b + -print", "sh -c 'a b'", "eval a b",
        "bash -euo pipefail -c 'a b'", "env -S 'a b'", "env --split-string='a b'",
        "trap 'a b' EXIT", "ssh -p 22 host a b", "watch -n 1 a b", "flock x a b",
        "flock x -c 'a b'", "su -c 'a b' me", "sh <<< 'a b'", "sh <<E\na b\nE",
        "sh <<-'E'\n\ta b\n\tE", "script -qc 'a b' /dev/null",
        "env nohup nice timeout 5 sh -c 'eval a b'", "alias x='a b'", "env -- a b",
        "unshare -r a b",
    ],
)  # fmt: skip
def test_wrapped_programs_are_found(command: str) -> None:
    script = parse_script(command)
    assert ("a", "b") in [command.argv[:2] for command in script.commands]
    assert script.opaque_reason is None


@pytest.mark.parametrize(
    "command",
    [
        "echo 'x", "if x; then", "a | | b", "$X y", "$(x) y", "r? y", "{a,b}", "x | sh", "sh < y",
        'sh -c "$X"', "eval $X", "env $X y", "env --unknown x", "bash <(x)", "x\0", "x\x1b[2K",
        "x\r", "x\u200b", "x \u202e y", "\ud800", "x" * 10_001, "$(" * 60 + "x" + ")" * 60,
        "eval " * 40 + "x", "env " * 40 + "x", "IFS=,", "BASH_ENV=x sh -c x", "echo ${!x}",
        "echo ${x@P}", "x=a; echo $((x))", "echo $(($(x)))", "test -v 'a[$(x)]'",
        "a\\\nb c\\\nd#", "echo $'\\''", "x;" * 2500, "coproc x", "sh - | x", ". /dev/stdin",
    ],
)  # fmt: skip
def test_unsupported_syntax_is_opaque(command: str) -> None:
    assert parse_script(command).opaque_reason


def test_redirections_belong_to_their_command() -> None:
    script = parse_script("a > f 2>&1 x < 'g h'; (b) >> $X")
    assert script.commands[0].argv == ("a", "x")
    assert script.commands[0].redirects == (
        Redirect(">", "f"), Redirect(">&", "1"), Redirect("<", "g h"),
    )  # fmt: skip
    group, inner = script.commands[1:]
    assert (group.argv, group.redirects, inner.argv) == ((), (Redirect(">>", None),), ("b",))


@pytest.mark.parametrize(
    ("command", "target"),
    [
        ("a - <<'E' 2>&1 | b -5\ntext\nE", "1"),
        ("a - <<'E' 2>/dev/null | b -5\ntext\nE", "/dev/null"),
        ("c && a - <<-\"E\" > f.txt | b -5\n\ttext\n\tE", "f.txt"),
        ("a - 2>&1 <<E | b -5\ntext\nE", "1"),
        ("c | a -  <<E 2>&1 >> f | b -5 && d\ntext\nE", "1"),
        ("a - <<E 2> f | b -5\ntext\nE\n", "f"),
        (f"a - <<'E' 2>&1 | b -5\n{'text ' * 99}\nE", "1"),
    ],
)  # fmt: skip
def test_pipe_after_a_heredoc_is_a_pipe(command: str, target: str) -> None:
    script = parse_script(command)
    assert script.opaque_reason is None
    assert ("a", "-") in argvs(command)
    assert ("b", "-5") in argvs(command)
    redirects = [redirect for command in script.commands for redirect in command.redirects]
    assert target in [redirect.target for redirect in redirects]
    assert [redirect.op for redirect in redirects].count("<<") == 1


@pytest.mark.parametrize(
    "command",
    [
        # The number belongs to the heredoc, the digit to the word, or the text is quoted.
        "a 3<<'E' 2>&1 | b\nx\nE", "a f<<'E' 2>&1 | b\nx\nE",
        "a ' <<E 2>&1 | ' <<'E' 2>&1 | b\nx\nE", "a <<'E' 2>&1 | b # <<X 2>&1 | x\nx\nE",
        "a <<'E' 2>&1 | b\nx <<F 2>&1 | c\nE",
        # In a shell without `&>`, this is a list.
        "a <<'E' &> f | b\nx\nE", "a <<'E' 2>&$X | b\nx\nE", "a <<'E' 2>&1 x | b\nx\nE",
    ],
)  # fmt: skip
def test_other_order_after_a_heredoc_is_opaque(command: str) -> None:
    assert parse_script(command).opaque_reason


def test_file_read_by_a_substitution_is_found() -> None:
    redirects = [r for command in parse_script("echo $(< f)").commands for r in command.redirects]
    assert redirects == [Redirect("<", "f")]


def test_assignments_have_their_values() -> None:
    script = parse_script("A=1 B='x y' a; C=$(b); export D=2")
    assert [command.assignments for command in script.commands if command.assignments] == [
        (("A", "1"), ("B", "x y")), (("C", None),), (("D", "2"),),
    ]  # fmt: skip


def test_loop_values_are_known_until_reassigned() -> None:
    assert parse_script("for f in a 'b c'; do x; done").loop_values == {"f": ("a", "b c")}
    assert parse_script("for f in a; do f=b; done").loop_values == {}
    assert parse_script("for f in $(x); do y; done").loop_values == {}


def test_double_brackets_are_opaque_for_a_plain_shell() -> None:
    assert ("rm", "x") in [argv[:2] for argv in argvs("[[ a || rm x ]]") if argv]
    assert ("rm", "x") in argvs("((rm x))")


@given(st.lists(st.sampled_from(PIECES), max_size=25).map("".join))
def test_nearly_valid_lines_are_parsed(command: str) -> None:
    script = parse_script(command)
    assert all(len(command.argv) == len(command.words) for command in script.commands)


@given(st.text(st.characters(exclude_categories=()), max_size=80) | st.binary().map(bytes.hex))
def test_any_text_is_parsed(command: str) -> None:
    assert parse_script(command).text == command


@given(st.binary(max_size=80))
def test_any_bytes_are_parsed(data: bytes) -> None:
    assert parse_script(data.decode("utf-8", "surrogateescape")).text is not None


@given(st.text(st.sampled_from("aé×中🙂\U0002fa1d\u3000"), min_size=1), st.booleans())
def test_words_in_any_script_are_unchanged(word: str, long: bool) -> None:
    behind = " x" * 200 if long else ""
    script = parse_script(f"echo '{word}' {word}{behind}")
    assert script.commands[0].argv[:3] == ("echo", word, word)
    assert script.commands[0].text.startswith(f"echo '{word}' {word}")
    assert script.opaque_reason is None


def test_line_is_opaque_without_a_parser() -> None:
    program = (
        "import sys; sys.executable = '/nonexistent'\n"
        "from agent.security.shell.parser import parse_script\n"
        "assert parse_script('ls').opaque_reason == 'it could not be parsed'"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_parse_is_the_same_on_a_busy_processor(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seconds = itertools.count()
    monkeypatch.setattr(time, "monotonic", lambda: float(next(seconds)))
    script = parse_script("echo 'a' a" + " é" * 200)
    assert script.opaque_reason is None
    assert script.commands[0].argv[:3] == ("echo", "a", "a")


def test_only_ascii_names_can_be_assigned() -> None:
    assert argvs("中=1 ls") == [("中=1", "ls")]
    assert argvs("x=1 ls") == [("ls",)]


def test_unknown_character_does_not_end_the_process() -> None:
    line = "a{" * 36 + "\U0010ffff"
    program = f"from agent.security.shell.parser import parse_script; parse_script({line!a})"
    subprocess.run([sys.executable, "-c", program], check=True)
