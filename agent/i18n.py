"""Translation of messages to people. The English text is the key.

The language belongs to the current task: `set_locale` and `use_locale` choose it, `t` uses it.
English costs nothing: a catalogue is read when its language is used for the first time.
docs/languages.md explains how to add a text or a language.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar

ENGLISH = "en"
LANGUAGES = (ENGLISH, "zh-Hans", "zh-Hant")

_current_language: ContextVar[str] = ContextVar("language", default=ENGLISH)
_catalogues: dict[str, Mapping[str, str]] = {}


def t(english: str, /, **values: object) -> str:
    """Return the text in the current language, its `{fields}` filled with `values`.

    A text without values is returned literally, including braces.
    """
    language = _current_language.get()
    text = english if language == ENGLISH else _catalogue(language).get(english, english)
    return text.format(**values) if values else text


def plural(n: int, singular: str, many: str, /, **values: object) -> str:
    """Translate with the form for this number, which is also the field `{n}`."""
    return t(singular if n == 1 else many, n=n, **values)


def mark_for_translation(english: str, /) -> str:
    """Return the text unchanged: for tables, whose texts are passed to `t` when they are shown."""
    return english


def current_locale() -> str:
    """Return the current language."""
    return _current_language.get()


def set_locale(language: str) -> None:
    """Use one of `LANGUAGES` from here on, in this task and the tasks that it starts."""
    assert language in LANGUAGES, language
    _current_language.set(language)


@contextmanager
def use_locale(language: str) -> Iterator[None]:
    """Use one of `LANGUAGES` while the context is open."""
    assert language in LANGUAGES, language
    before = _current_language.set(language)
    try:
        yield
    finally:
        _current_language.reset(before)


@contextmanager
def use_locale_once(language: str) -> Iterator[None]:
    """Use a language for a few texts, without caching its catalogue."""
    is_loaded = language in _catalogues
    with use_locale(language):
        try:
            yield
        finally:
            if not is_loaded:
                _catalogues.pop(language, None)


def language_of(tag: str | None) -> str | None:
    """Return the language of a tag (`zh-TW`, `zh_CN.UTF-8`, `de`); None if there is none.

    A language without a catalogue falls back to English.
    """
    subtags = (
        (tag or "").partition(".")[0].partition("@")[0].replace("_", "-").casefold().split("-")
    )
    if subtags[0] in ("", "c", "posix"):
        return None
    if subtags[0] not in ("zh", "yue"):
        return ENGLISH
    if "hans" in subtags or "hant" in subtags:
        return "zh-Hant" if "hant" in subtags else "zh-Hans"
    traditional = subtags[0] == "yue" or not {"tw", "hk", "mo"}.isdisjoint(subtags)
    return "zh-Hant" if traditional else "zh-Hans"


def is_writable(language: str, encoding: str | None) -> bool:
    """Return whether a terminal with this encoding can show a language."""
    try:
        ("" if language == ENGLISH else "中文說").encode(encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def language_of_terminal(environ: Mapping[str, str]) -> str:
    """Return the language set by the variables of a terminal, in the order given by POSIX."""
    configured = environ.get("KORE_AGENT_LANGUAGE", "")
    if configured in LANGUAGES:
        return configured
    if configured.casefold().startswith("zh"):
        return language_of(configured) or ENGLISH
    tags = (environ[name] for name in ("LC_ALL", "LC_MESSAGES", "LANG") if environ.get(name))
    return language_of(next(tags, None)) or ENGLISH


def _catalogue(language: str) -> Mapping[str, str]:
    catalogue = _catalogues.get(language)
    if catalogue is None:
        import json
        from pathlib import Path

        path = Path(__file__).parent / "languages" / f"{language}.jsonl"
        catalogue = _catalogues[language] = dict(
            map(json.loads, path.read_text("utf-8").splitlines())
        )
    return catalogue
