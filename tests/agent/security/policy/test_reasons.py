"""Localization of the reasons for questions."""

from agent.i18n import use_locale
from agent.prompts import load_prompt, render_prompt
from agent.security.policy.reasons import localized


def test_reason_with_values_is_translated() -> None:
    reason = render_prompt("policy/ask_mcp", server="files")
    changed = render_prompt("policy/ask_mcp_changed", server="a {b} $c")
    assert localized(reason) == reason
    with use_locale("zh-Hans"):
        assert localized(reason) == "MCP 服务器 files 的工具：Kore 看不到它做什么。"
        assert localized(changed).count("a {b} $c") == 2
        assert "MCP 服务器" in localized(changed)
        plain = load_prompt("policy/ask_change")
        assert localized(plain) not in (plain, "")
        assert localized("words of a hook: A tool") == "words of a hook: A tool"


def test_reason_of_several_sentences_is_translated_line_by_line() -> None:
    lines = [
        render_prompt("policy/ask_delete_lost_git", files=".git/"),
        render_prompt("policy/ask_delete_restorable", files="a.txt"),
    ]
    with use_locale("zh-Hans"):
        assert localized("\n".join(lines)) == (
            "删除或移动一个仓库的历史，无法撤销：.git/。\n删除以下文件，可以撤销：a.txt。"
        )


def test_values_may_have_several_lines() -> None:
    reason = render_prompt("policy/ask_outside_sandbox", why="one\ntwo")
    with use_locale("zh-Hant"):
        text = localized(reason)
    assert text.endswith("one\ntwo")
    assert text != reason
