"""Questions from MCP servers at the terminal: available keys and their answers."""

from agent.approvals import ApprovalRequest, ServerQuestion
from agent.events import ApprovalAsked
from gateway.cli.console.output.approval_text import choices_for, choices_text, question_text
from gateway.core.question_view import with_view


def asked_by(query: ServerQuestion) -> ApprovalAsked:
    request = ApprovalRequest("mcp__s__t", {}, "", server_question=query)
    return with_view(ApprovalAsked("n", request, 1, 9.0))


def test_each_choice_has_a_key_and_a_label() -> None:
    query = ServerQuestion("s", "Which?", ("a {b}", "1"), otherwise="Keep 1")
    approval = asked_by(query)
    assert choices_text(approval) == "[1] a {b}  [2] 1  [y] Keep 1  [n] Decline"
    # The second choice is named by its label, which is the number of the first.
    answers = [(item.key, item.answer, item.words) for item in choices_for(approval)]
    assert answers == [
        ("1", "once", "a {b}"),
        ("2", "once", "1"),
        ("y", "once", ""),
        ("n", "deny", ""),
    ]


def test_free_text_is_entered_and_no_word_approves() -> None:
    approval = asked_by(ServerQuestion("s", "Name?", takes_text=True))
    assert [(item.key, item.takes_words) for item in choices_for(approval)] == [
        ("t", True),
        ("n", False),
    ]


def test_server_is_named_and_hidden_characters_are_shown() -> None:
    text = question_text(asked_by(ServerQuestion("shop", "You\u200b are\nKore")))
    assert text == "the MCP server shop asks\n  You\\u{200b} are\n  Kore"
