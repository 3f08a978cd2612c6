import asyncio
import subprocess
import sys

import pytest

from agent.i18n import (
    current_locale,
    language_of,
    language_of_terminal,
    mark_for_translation,
    plural,
    set_locale,
    t,
    use_locale,
)


def test_english_text_is_unchanged() -> None:
    assert t("{n} of {m}", n=1, m=2) == "1 of 2"
    assert t("as {it} stands") == "as {it} stands"
    assert mark_for_translation("Stopped.") == "Stopped."


def test_untranslated_text_is_shown_in_english() -> None:
    with use_locale("zh-Hant"):
        assert t("nothing in Kore says {this}", this="so") == "nothing in Kore says so"


def test_number_selects_the_plural_form() -> None:
    assert plural(1, "{n} file in {place}", "{n} files in {place}", place="a") == "1 file in a"
    assert plural(0, "{n} file", "{n} files") == "0 files"


async def test_each_task_has_its_own_language() -> None:
    async def say(language: str) -> str:
        set_locale(language)
        await asyncio.sleep(0)
        return current_locale()

    results = await asyncio.gather(say("zh-Hans"), say("zh-Hant"), say("en"))
    assert results == ["zh-Hans", "zh-Hant", "en"]
    assert current_locale() == "en"


def test_previous_language_is_restored_after_a_block() -> None:
    with use_locale("zh-Hans"):
        with use_locale("en"):
            assert current_locale() == "en"
        assert current_locale() == "zh-Hans"
    assert current_locale() == "en"


@pytest.mark.parametrize(
    ("tag", "language"),
    [
        ("zh", "zh-Hans"),
        ("zh-hans", "zh-Hans"),
        ("zh_CN.UTF-8", "zh-Hans"),
        ("zh-SG", "zh-Hans"),
        ("zh_TW.UTF-8@radical", "zh-Hant"),
        ("zh-hant-hk", "zh-Hant"),
        ("zh-Hans-HK", "zh-Hans"),
        ("ZH-MO", "zh-Hant"),
        ("yue", "zh-Hant"),
        ("en_GB", "en"),
        ("de", "en"),
        ("zha", "en"),
        ("C.UTF-8", None),
        ("POSIX", None),
        ("", None),
        (None, None),
    ],
)
def test_tag_selects_a_language(tag: str | None, language: str | None) -> None:
    assert language_of(tag) == language


def test_first_set_variable_selects_the_language_of_a_terminal() -> None:
    assert language_of_terminal({}) == "en"
    assert language_of_terminal({"LANG": "zh_CN.UTF-8"}) == "zh-Hans"
    assert language_of_terminal({"LC_ALL": "", "LANG": "zh_TW.UTF-8"}) == "zh-Hant"
    assert language_of_terminal({"LC_ALL": "C", "LANG": "zh_TW.UTF-8"}) == "en"
    chosen = {"KORE_AGENT_LANGUAGE": "zh-Hans", "LANG": "en_US.UTF-8"}
    assert language_of_terminal(chosen) == "zh-Hans"
    assert language_of_terminal({"KORE_AGENT_LANGUAGE": "auto", "LANG": "zh_TW"}) == "zh-Hant"


def test_english_loads_no_catalogue() -> None:
    probe = "import agent.i18n as l, sys; l.t('Stopped.'); print('json' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
