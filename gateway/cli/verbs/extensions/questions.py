"""Options of a plugin, from environment variables or asked in the terminal."""

import os
import sys
from collections.abc import Collection, Mapping, Sequence
from getpass import getpass

from agent.i18n import t
from gateway.cli.output import clean, tell
from gateway.plugins.errors import PluginError
from gateway.plugins.options import PluginOption, Value


def ask_options(
    options: Sequence[PluginOption], before: Collection[str], *, only_required: bool
) -> Mapping[str, Value]:
    """Return answers to options that have none `before`.

    Raises `PluginError` if a required answer is missing.
    """
    answers: dict[str, Value] = {}
    for option in options:
        if option.variable in os.environ:
            answers[option.key] = option.value_of(os.environ[option.variable])
            continue
        if option.key in before:
            continue
        may_skip = option.default is not None or not option.is_required
        if sys.stdin.isatty() and not (only_required and may_skip):
            answer = _ask(option)
        else:
            answer = option.default
        if answer is not None:
            answers[option.key] = answer
        elif option.is_required:
            raise PluginError(
                t("the plugin needs a value for {key}", key=option.key),
                hint=t(
                    "set the variable {name}, or install it in a terminal", name=option.variable
                ),
            )
    return answers


def _ask(option: PluginOption) -> Value | None:
    """Ask until the answer is valid; an empty answer is the default."""
    if option.description:
        tell(clean(option.description))
    default = "" if option.default is None else f" [{option.default}]"
    prompt = f"{clean(option.title)}{clean(default)}: "
    while True:
        if option.is_secret:
            text = getpass(prompt, stream=sys.stderr)
        else:
            print(prompt, end="", file=sys.stderr, flush=True)
            text = sys.stdin.readline()
            if not text:
                return option.default
        if not text.strip():
            return option.default
        try:
            return option.value_of(text.strip())
        except PluginError as exc:
            tell(str(exc))
