"""Content of a question: all details, made visible, and the scope of each answer."""

from pathlib import Path
from typing import Any

import pytest

from agent.approvals import ApprovalRequest, CommandPrefix, ServerQuestion
from agent.i18n import use_locale
from gateway.core.question_view import MAX_LINE_CHARS, view_of


def lines_of(**facts: Any) -> list[str]:
    facts = {"tool": "exec", "arguments": {}, "reason": "why", **facts}
    asker = facts.pop("asker", None)
    return [line.text for line in view_of(ApprovalRequest(**facts), asker).lines]


def labels_of(**facts: Any) -> dict[str, str]:
    facts = {"tool": "exec", "arguments": {}, "reason": "why", **facts}
    return {option.key: option.label for option in view_of(ApprovalRequest(**facts)).options}


def test_every_argument_and_every_character_is_shown() -> None:
    command = "ls\x1b[8m; rm x"
    arguments = {"command": command, "workdir": "/w", "background": True}
    shown = lines_of(arguments=arguments, command=command, folder="/w")
    assert shown == ["ls\\u{1b}[8m; rm x", "workdir: /w", "background: true", "in: /w", "why"]


def test_argument_cannot_imitate_another_argument() -> None:
    arguments = {"reason": "x\noutside: false", "outside": True, "a\nb": 1}
    shown = lines_of(arguments=arguments)
    assert shown == ["reason: x", "    outside: false", "outside: true", "a b: 1", "why"]


def test_requested_hosts_are_shown_normalized() -> None:
    shown = lines_of(
        arguments={"command": "make", "network": "  Example.org"},
        command="make",
        network=("example.org",),
    )
    assert shown == ["make", "network: example.org", "why"]


def test_many_empty_lines_are_counted() -> None:
    command = "ls" + "\n" * 41 + "rm -rf x\n\n\n"
    assert lines_of(command=command) == ["ls", "(40 empty lines)", "rm -rf x", "why"]
    assert lines_of(command="ls\n \n\nrm") == ["ls", "", "", "rm", "why"]


def test_many_blanks_are_counted() -> None:
    assert lines_of(command="ls" + " " * 300 + "; rm")[0] == "ls\\u{20}×300; rm"
    assert lines_of(command="ls" + "\t" * 20 + "; rm")[0] == "ls\\u{20}×20; rm"


def test_long_line_is_continued() -> None:
    command = "echo " + "a" * 400 + "; rm"
    shown = lines_of(command=command)[:-1]
    assert all(len(line) <= MAX_LINE_CHARS + 2 for line in shown)
    assert "".join(line.removeprefix("↪ ") for line in shown) == command


def test_diff_is_shown_with_the_reason_for_accepting_errors() -> None:
    arguments = {"path": "a.py", "old_string": "a", "despite_errors": "the next edit\ndefines it"}
    assert lines_of(tool="edit_file", arguments=arguments, diff="-a\n+b") == [
        "-a",
        "+b",
        "Introduces new errors; the model insists: the next edit defines it",
        "why",
    ]


@pytest.mark.parametrize(
    ("path", "title", "row"),
    [
        ("a.py", "read_file a.py", []),
        ("a" * 61, "read_file", ["path: " + "a" * 61]),
        ("a\u202e", "read_file", ["path: a\\u{202e}"]),
        ("a  b", "read_file", ["path: a  b"]),
    ],
)
def test_short_path_is_in_the_title(path: str, title: str, row: list[str]) -> None:
    view = view_of(ApprovalRequest("read_file", {"path": path}, "why"))
    assert view.title == title
    assert [line.text for line in view.lines] == [*row, "why"]


def test_outgoing_data_is_shown() -> None:
    assert lines_of(tool="web_fetch", arguments={"url": "a"}, sends="a")[0] == "url: a"
    assert lines_of(tool="send", arguments={"to": "a"}, sends="b\nc")[:3] == ["b", "c", "to: a"]


def test_each_answer_describes_its_grant() -> None:
    assert labels_of() == {
        "y": "Allow once",
        "s": "Allow exactly this for this session",
        "a": "Always allow exactly this",
        "n": "Deny",
    }
    assert labels_of(network=("example.org", "example.com")) == {
        "y": "Allow once",
        "s": "Allow network to example.org, example.com for all commands of this session",
        "a": "Always allow network to example.org, example.com for all commands",
        "n": "Deny",
    }
    assert labels_of(unbound="go", prefixes=(CommandPrefix(("go", "test")),)) == {
        "y": "Allow once",
        "p": "Always allow go test * (any arguments)",
        "n": "Deny",
    }


def test_question_explains_missing_options_and_missing_sandbox() -> None:
    shown = lines_of(command="go run .", unbound="go", confinement="none", asker="telegram:8")
    assert shown[2:] == [
        "It runs without a sandbox.",
        "This can only be allowed once: it is unknown which files go runs.",
        "Requested by telegram:8",
    ]
    assert lines_of(command="make", confinement="bwrap example.org") == ["make", "why"]


def test_files_in_the_home_are_named() -> None:
    shown = lines_of(command="curl a", home_settings=(".curlrc", ".x\u202e\nin: /safe"))
    assert shown == [
        "curl a",
        "why",
        "Files of earlier commands in its home: .curlrc, .x\\u{202e}",
        "    in: /safe",
    ]


@pytest.mark.parametrize("name", ["shop", "shop\nKore asks: allow?", "shop\u202e"])
def test_server_name_fits_on_one_line_and_its_text_is_escaped(name: str) -> None:
    query = ServerQuestion(name, "a\u200b\n\n\n\n\nb", ("x\ny", "z"))
    view = view_of(ApprovalRequest("t", {}, "", server_question=query))
    assert view.title.startswith("the MCP server shop")
    assert "\n" not in view.title
    assert "\u202e" not in view.title
    assert [line.text for line in view.lines] == ["a\\u{200b}", "(4 empty lines)", "b"]
    assert [(option.label, option.words) for option in view.options] == [
        ("x y", "x\ny"),
        ("z", "z"),
        ("Decline", ""),
    ]


def test_question_is_translated() -> None:
    with use_locale("zh-Hans"):
        assert labels_of()["y"] == "允许一次"
        assert lines_of(reason="Runs a command.") != lines_of(reason="Runs  a command.")


def test_labels_are_defined_only_in_question_view() -> None:
    """Every front end takes the lines and labels from `question_view`."""
    front_ends = [
        *Path("gateway").rglob("*.py"),
        *Path("gateway/server/web/static/app").glob("*.mjs"),
    ]
    texts = {path: path.read_text("utf-8") for path in front_ends}
    owners = {str(path) for path, text in texts.items() if '"Always allow exactly this"' in text}
    assert owners == {"gateway/core/question_view.py"}
