"""Questions of a plugin at its installation: `userConfig` of its manifest."""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, cast, get_args

from agent.i18n import t
from agent.records import frozen
from agent.text.visible import escape_line
from gateway.plugins.errors import PluginError

OptionType = Literal["string", "number", "boolean", "directory", "file"]
Value = str | int | float | bool
# The key becomes part of a variable's name.
_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}", re.ASCII)
_WORDS = {"true": True, "yes": True, "false": False, "no": False}


@frozen
class PluginOption:
    """Question of a plugin. Secret answers go to secrets.json and are never shown."""

    key: str
    type: OptionType = "string"
    title: str = ""
    description: str = ""
    default: Value | None = None
    is_required: bool = False
    is_secret: bool = False
    least: float | None = None
    most: float | None = None

    @property
    def variable(self) -> str:
        """Variable in which the plugin's servers and hooks get the answer."""
        return f"CLAUDE_PLUGIN_OPTION_{self.key.upper()}"

    def value_of(self, text: str) -> Value:
        """Convert a person's answer. Raises `PluginError`."""
        if self.type == "boolean":
            if text.lower() not in _WORDS:
                raise PluginError(t("{key}: expected yes or no", key=self.key))
            return _WORDS[text.lower()]
        if self.type == "number":
            return self._number(text)
        if any(ord(char) < 32 for char in text):
            raise PluginError(t("{key}: expected a text", key=self.key))
        return text if self.type == "string" else str(Path(text).expanduser().absolute())

    def _number(self, text: str) -> Value:
        try:
            value = float(text)
        except ValueError:
            value = float("nan")
        least = float("-inf") if self.least is None else self.least
        most = float("inf") if self.most is None else self.most
        if not least <= value <= most:
            raise PluginError(t("{key}: expected a number", key=self.key))
        return int(value) if value.is_integer() else value


def answers_of(
    options: Sequence[PluginOption], texts: Mapping[str, str], before: Collection[str]
) -> dict[str, Value]:
    """Convert a person's answers and add defaults for questions without an earlier answer.

    Raises `PluginError` for an answer without a question, and for a missing required answer.
    """
    unknown = sorted(texts.keys() - {option.key for option in options})
    if unknown:
        raise PluginError(t("the plugin does not ask for {key}", key=unknown[0][:80]))
    answers: dict[str, Value] = {}
    for option in options:
        if text := texts.get(option.key, "").strip():
            answers[option.key] = option.value_of(text)
        elif option.key in before:
            continue
        elif option.default is not None:
            answers[option.key] = option.default
        elif option.is_required:
            raise PluginError(t("the plugin needs a value for {key}", key=option.key))
    return answers


def read_options(value: Any) -> tuple[PluginOption, ...]:
    """Return the questions of a manifest. Raises `PluginError`."""
    if value is None:
        return ()
    if not isinstance(value, dict):
        raise PluginError(t("{key}: expected an object", key="userConfig"))
    return tuple(_options(value))


def _options(value: Mapping[str, Any]) -> Iterator[PluginOption]:
    for key, option in value.items():
        if not _KEY.fullmatch(key):
            raise PluginError(t("userConfig: {key!r} is not an option name", key=key[:80]))
        if not isinstance(option, dict):
            raise PluginError(t("{key}: expected an object", key=f"userConfig.{key}"))
        kind = option.get("type", "string")
        if kind not in get_args(OptionType):
            raise PluginError(
                t("userConfig.{key}: there is no type {kind!r}", key=key, kind=str(kind)[:40])
            )
        default = option.get("default")
        yield PluginOption(
            key,
            cast("OptionType", kind),
            escape_line(str(option.get("title") or key)),
            escape_line(" ".join(str(option.get("description") or "").split())),
            default if isinstance(default, str | int | float | bool) else None,
            option.get("required") is True,
            option.get("sensitive") is True,
            _limit(option.get("min")),
            _limit(option.get("max")),
        )


def _limit(value: Any) -> float | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number else None
