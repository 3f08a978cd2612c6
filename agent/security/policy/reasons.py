"""Localization of the reasons for questions, which are policy prompts with values filled in."""

import re
from functools import cache
from pathlib import Path

from agent import prompts
from agent.i18n import t
from agent.prompts import load_prompt

_FIELD = re.compile(r"\$(\w+)")
_SHOWN = ("ask_", "taint_", "role_ask", "agents_confirm")


def localized(reason: str) -> str:
    """Return the reason in the current language, or in English without a translation."""
    text = t(reason)
    if text != reason:
        return text
    if "\n" in reason:
        return "\n".join(map(localized, reason.split("\n")))
    for pattern, key in _patterns():
        if match := pattern.fullmatch(reason):
            return t(key, **match.groupdict())
    return reason


@cache
def reasons() -> tuple[str, ...]:
    """Return the texts as in the catalogues, with `{server}` for `$server`."""
    folder = Path(prompts.__file__).parent / "policy"
    names = sorted(path.stem for path in folder.glob("*.md") if path.stem.startswith(_SHOWN))
    return tuple(_FIELD.sub(r"{\1}", load_prompt(f"policy/{name}")) for name in names)


@cache
def _patterns() -> tuple[tuple[re.Pattern[str], str], ...]:
    return tuple((_pattern(key), key) for key in reasons() if "{" in key)


def _pattern(key: str) -> re.Pattern[str]:
    parts: list[str] = []
    names: set[str] = set()
    for index, part in enumerate(re.split(r"\{(\w+)\}", key)):
        if index % 2 == 0:
            parts.append(re.escape(part))
        else:
            parts.append(f"(?P={part})" if part in names else f"(?P<{part}>.+?)")
            names.add(part)
    return re.compile("".join(parts), re.DOTALL)
