"""`/language`: which language I speak to somebody, in all their chats."""

from sqlite3 import Connection

from agent.i18n import ENGLISH, LANGUAGES, language_of, t, use_locale
from gateway.commands.dispatcher import CommandCall
from gateway.core.keyboard import KeyboardChoice
from gateway.core.markdown import escape_markdown

# Each in its own words: whoever looks for one must find it.
LANGUAGE_NAMES = {ENGLISH: "English", "zh-Hans": "简体中文", "zh-Hant": "繁體中文"}
AUTO_LANGUAGE = "auto"
_LANGUAGE_ALIASES = {
    "english": ENGLISH,
    **dict.fromkeys(("中文", "简体", "简体中文", "chinese"), "zh-Hans"),
    **dict.fromkeys(("繁體", "繁體中文", "繁体", "繁体中文"), "zh-Hant"),
}


def language_choices(call: CommandCall, connection: Connection) -> list[KeyboardChoice]:
    names = [
        *((language, LANGUAGE_NAMES[language]) for language in LANGUAGES),
        (AUTO_LANGUAGE, AUTO_LANGUAGE),
    ]
    return [KeyboardChoice(label, "language", language) for language, label in names]


def answer_language(call: CommandCall, connection: Connection) -> str:
    languages, message = call.office.languages, call.message
    wanted = call.argument.strip()
    if not wanted:
        return _language_text(languages.of(message))
    found = _parse_language(wanted)
    if found is None:
        return (
            t("I do not speak {name} yet.", name=escape_markdown(wanted[:40]))
            + f"\n{_language_lines()}"
        )
    languages.choose(connection, message.principal, None if found == AUTO_LANGUAGE else found)
    current = languages.of(message)
    with use_locale(current):
        return t("From now on I speak {name} to you.", name=LANGUAGE_NAMES[current])


def _parse_language(wanted: str) -> str | None:
    """The language that is meant; None for one that is not there."""
    word = wanted.casefold()
    if word in (AUTO_LANGUAGE, *_LANGUAGE_ALIASES):
        return _LANGUAGE_ALIASES.get(word, AUTO_LANGUAGE)
    known = {language.casefold(): language for language in LANGUAGES}
    if word in known or word.startswith(("zh-", "zh_", "en-", "en_")) or word == "zh":
        return known.get(word) or language_of(word)
    return None


def _language_text(current: str) -> str:
    head = t(
        "I speak {name} to you. `/language NAME` chooses another:", name=LANGUAGE_NAMES[current]
    )
    return f"{head}\n{_language_lines()}"


def _language_lines() -> str:
    lines = [f"- `{language}` {LANGUAGE_NAMES[language]}" for language in LANGUAGES]
    return "\n".join([*lines, t("- `auto` as your app or terminal is set")])
