"""Questions about the assistant and its person, whose answers are stored in the workspace."""

import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from zoneinfo import ZoneInfo, available_timezones

from agent.errors import ConfigError
from agent.i18n import mark_for_translation, t
from agent.text.similar_names import similar_names
from gateway.cli.onboarding.dialogue import Dialogue
from gateway.config.atomic_write import write_atomic

_NAME = "Kore"
_CALLED = "- Name, and how to address them:"
_ZONE = "- Place and time zone:"
_LANGUAGE = "- Language:"
# Line of the default SOUL.md; an edited tone is preserved.
_VOICE = re.compile(r"^Warm, plain and unhurried:.*$", re.MULTILINE)
_IDENTITY = re.compile(r"^You are (.{1,60}?), a personal assistant\.", re.MULTILINE)
_MAX_NAME_CHARS = 60
# Tones: the label for people and the text for the model.
_TONES = (
    (mark_for_translation("warm and direct, like a capable friend"), ""),
    (
        mark_for_translation("brief and factual"),
        "Brief and factual: the answer first, few words, no small talk.",
    ),
    (
        mark_for_translation("cheerful and chatty"),
        "Cheerful and lively: light words, small jokes, never silly.",
    ),
    (
        mark_for_translation("formal and courteous"),
        "Formal and courteous: full sentences, no slang, no jokes.",
    ),
)


@dataclass(slots=True)
class Persona:
    """Answers about the assistant and its person; empty values change nothing."""

    name: str = ""
    manner: str = ""
    person: str = ""
    zone: str = ""
    language: str = ""


def ask_persona(dialogue: Dialogue, persona: Persona, workspace: Path) -> None:
    """Ask the questions; Enter accepts the current values of the workspace."""
    match = _IDENTITY.search(_text(workspace / "IDENTITY.md"))
    name = _plain(dialogue.ask(t("What should I be called?"), match[1] if match else _NAME))
    labels = [*(t(label) for label, _ in _TONES), t("in your own words")]
    number = dialogue.choose(t("What tone should I use?"), labels)
    manner = (
        _TONES[number][1]
        if number < len(_TONES)
        else _plain(dialogue.ask(t("Describe the tone")), 300)
    )
    profile = _text(workspace / "USER.md")
    person = _plain(dialogue.ask(t("What should I call you?"), _value_after(profile, _CALLED)))
    zone = dialogue.ask(
        t("Your time zone"), _value_after(profile, _ZONE) or machine_zone(), _judge_zone
    )
    # Set the values only now, so that skipping the rest of the step changes nothing.
    persona.name, persona.manner, persona.person, persona.zone = name, manner, person, zone


def write_persona(workspace: Path, persona: Persona) -> None:
    """Write the answers to the files of the workspace, in the same places as the starter files.

    In a file without such a place, a line is appended. Raises `ConfigError`.
    """
    identity, soul = workspace / "IDENTITY.md", workspace / "SOUL.md"
    if persona.name and persona.name != _NAME:
        line = f"You are {persona.name}, a personal assistant."
        _edit(identity, partial(_put, place=_IDENTITY, line=line))
    if persona.manner:
        _edit(soul, partial(_put, place=_VOICE, line=persona.manner))
    for label, answer in (
        (_CALLED, persona.person),
        (_ZONE, persona.zone),
        (_LANGUAGE, persona.language),
    ):
        if answer:
            place = re.compile(rf"^{re.escape(label)}.*$", re.MULTILINE)
            line = f"{label} {answer}"
            _edit(workspace / "USER.md", partial(_put, place=place, line=line))


def machine_zone(folder: Path = Path("/etc")) -> str:
    """Return the machine's time zone by name, such as Europe/Berlin; UTC if unknown."""
    for name_given in (os.environ.get("TZ", "").lstrip(":"), _text(folder / "timezone").strip()):
        if name_given and known_zone(name_given):
            return name_given
    try:
        name = str((folder / "localtime").resolve()).partition("/zoneinfo/")[2]
    except OSError:
        name = ""
    return name if name and known_zone(name) else "UTC"


def known_zone(name: str) -> bool:
    try:
        ZoneInfo(name)
    except (ValueError, OSError, KeyError):
        return False
    return True


def _judge_zone(name: str) -> str | None:
    if known_zone(name):
        return None

    by_city = {zone.rpartition("/")[2].lower(): zone for zone in sorted(available_timezones())}
    close = similar_names(name.lower().replace(" ", "_"), by_city)
    if close:
        return t("Unknown time zone; did you mean {zone}?", zone=by_city[close[0]])
    return t("Unknown time zone; expected one such as Europe/Berlin or Asia/Taipei.")


def _put(text: str, place: re.Pattern[str], line: str) -> str:
    if place.search(text):
        return place.sub(lambda _: line, text, count=1)
    return f"{text.rstrip()}\n\n{line}\n".lstrip()


def _edit(path: Path, change: Callable[[str], str]) -> None:
    before = _text(path)
    after = change(before)
    if after != before:
        write_atomic(path, after)


def _value_after(text: str, label: str) -> str:
    """Return the value after a label in USER.md."""
    match = re.search(rf"^{re.escape(label)}[ \t]*(.*)$", text, re.MULTILINE)
    return match[1].strip() if match else ""


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError) as exc:
        raise ConfigError(t("{path}: cannot be read: {reason}", path=path, reason=exc)) from None


def _plain(text: str, limit: int = _MAX_NAME_CHARS) -> str:
    """Return the text as one line that markdown does not turn into a heading."""
    return " ".join(text.split()).lstrip("#-*> ")[:limit]
