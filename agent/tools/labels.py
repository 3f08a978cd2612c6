"""Labels of calls, filled with the arguments that distinguish the calls."""

import re
from collections.abc import Callable, Mapping
from typing import Any

from agent.i18n import t
from agent.tools.traits import PLAIN_LABEL

_FIELD = re.compile(r"\{(\w+)\}")


def label_values(label: str, arguments: Mapping[str, Any]) -> dict[str, str]:
    """Return the arguments that a label names, if the call has them, in the label's order."""
    values = {}
    for name in _FIELD.findall(label):
        value = arguments.get(name)
        if isinstance(value, list | tuple):
            value = ", ".join(map(str, value))
        if value is not None and (text := str(value).strip()):
            values[name] = text
    return values


def is_fixed(label: str) -> bool:
    """Return whether a label contains no arguments."""
    return bool(label) and not _FIELD.search(label)


def fill_label(
    label: str, tool: str, arguments: Mapping[str, Any], quote: Callable[[str, str], str]
) -> str:
    """Return a description of the call in the current language.

    `quote` renders an argument from its name and value. Without the arguments that the label names,
    only the tool is named.
    """
    values = label_values(label, arguments)
    if not (values or is_fixed(label)):
        label, values = PLAIN_LABEL, {"tool": tool}
    quoted = {name: quote(name, value) for name, value in values.items()}
    text = _FIELD.sub(lambda field: quoted.get(field[1], ""), t(label))
    return re.sub(" {2,}", " ", text).strip()
