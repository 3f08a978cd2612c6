"""Errors of argparse appear in the person's language."""

import argparse

import pytest

from agent.i18n import ENGLISH, use_locale
from gateway.cli.program import Parser, translate_argparse_error


def _parser() -> argparse.ArgumentParser:
    parser = Parser(prog="kore try")
    parser.add_argument("--count", type=int)
    parser.add_argument("--kind", choices=("a", "b"))
    parser.add_argument("--counter")
    either = parser.add_mutually_exclusive_group()
    either.add_argument("--red", action="store_true")
    either.add_argument("--blue", action="store_true")
    return parser


@pytest.mark.parametrize(
    ("words", "english", "chinese"),
    [
        (["--nothing"], "unrecognized arguments: --nothing", "无法识别的参数：--nothing"),
        (["--count"], "argument --count: expected one argument", "参数 --count：需要一个参数"),
        (["--count", "x"], "invalid int value: 'x'", "'x' 不是有效的 int 值"),
        (["--kind", "c"], "invalid choice: 'c' (choose from", "选项 'c' 无效（可选："),
        (["--red", "--blue"], "not allowed with argument --red", "不能与参数 --red 同时使用"),
        (
            ["--cou", "1"],
            "ambiguous option: --cou could match",
            "选项 --cou 有歧义",
        ),
    ],
)
def test_usage_error_is_translated(
    words: list[str], english: str, chinese: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for language, expected in ((ENGLISH, english), ("zh-Hans", chinese)):
        with use_locale(language), pytest.raises(SystemExit):
            _parser().parse_args(words)
        assert expected in capsys.readouterr().err


def test_unknown_sentence_is_not_translated() -> None:
    with use_locale("zh-Hans"):
        assert translate_argparse_error("something new: {x}") == "something new: {x}"
