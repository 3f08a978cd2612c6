"""Generator of docs/settings.md and config.example.json, based on the annotations of the settings.

`python -m tests.house.settings_page` prints the page; with `--example`, it prints the file.
"""

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pydantic.fields import FieldInfo
from pydantic_core import to_jsonable_python

from gateway.config.key_catalog import (
    all_keys,
    default_of,
    is_at_once,
    own_setting,
    setting_at,
    widens_access,
)
from gateway.config.origin import Key
from gateway.config.schema import Settings
from gateway.config.sections import ModelEntry
from gateway.config.setting import Setting

MAX_LINE_CHARS = 100
INTRODUCTION = """\
# Settings

Every key of `config.json`, written by `make schema` from the annotations in
`gateway/config/sections.py`. [Configuration](configuration.md) says how files are read and changed;
[config.example.json](../config.example.json) lists all keys.

An empty default means an empty text, list or map. A change applies *at once*, that is from the next
turn on, or after a *restart* of the gateway. Settings with *confirm* decide what Kore may do or
spend, where it sends data, who may reach it or what it starts; [kore web](web.md#settings) shows
both values and asks before it changes them.

## Keys

| key | default | change | meaning |
| --- | --- | --- | --- |
"""
MODELS = """
## An entry of model_list

| key | default | meaning |
| --- | --- | --- |
"""


def settings_page() -> str:
    """Return docs/settings.md."""
    keys = "\n".join(map(_row, all_keys()))
    fields = "\n".join(
        f"| `{name}` | {_field_default(info)} | {_meaning(own_setting(info))} |"
        for name, info in ModelEntry.model_fields.items()
    )
    return f"{INTRODUCTION}{keys}\n{MODELS}{fields}\n"


def example_config() -> str:
    """Return config.example.json: every key with its example, else its default."""
    sections = (f"  {json.dumps(name)}: {_layout(value)}" for name, value in _examples())
    return "{\n" + ",\n".join(sections) + "\n}\n"


def _row(key: Key) -> str:
    change = "at once" if is_at_once(key) else "restart"
    confirm = ", confirm" if widens_access(key) else ""
    cells = (f"`{'.'.join(key)}`", _default(default_of(key)), f"{change}{confirm}")
    return f"| {' | '.join(cells)} | {_meaning(setting_at(key))} |"


def _meaning(setting: Setting) -> str:
    page, _, anchor = setting.see.partition("#")
    link = f"[{page or 'below'}]({setting.see})" if page or anchor else ""
    text = f"{setting.help} ({link})" if link else setting.help
    return text.replace("|", "\\|")


def _field_default(info: FieldInfo) -> str:
    return "required" if info.is_required() else _default(_plain_default(info))


def _default(value: Any) -> str:
    plain = to_jsonable_python(value)
    if plain in ("", [], {}):
        return "empty"
    if isinstance(plain, list):
        return ", ".join(f"`{entry}`" for entry in plain)
    if isinstance(plain, dict):
        return f"`{json.dumps(plain)}`"
    return f"`{plain}`" if isinstance(plain, str) else json.dumps(plain)


def _examples() -> Iterator[tuple[str, Any]]:
    entry = _example_object(ModelEntry.model_fields)
    for name, info in Settings.model_fields.items():
        fields = getattr(info.annotation, "model_fields", None)
        value = _example(info) if fields is None else _example_object(fields)
        yield name, [*value, entry] if name == "model_list" else value


def _example_object(fields: Mapping[str, FieldInfo]) -> dict[str, Any]:
    return {name: _example(info) for name, info in fields.items()}


def _example(info: FieldInfo) -> Any:
    example = own_setting(info).example
    return _plain_default(info) if example is None else to_jsonable_python(example)


def _plain_default(info: FieldInfo) -> Any:
    return to_jsonable_python(info.get_default(call_default_factory=True))


def _layout(value: Any, indent: int = 2) -> str:
    """Return JSON in one line where it fits, else with one entry per line."""
    line = json.dumps(value, ensure_ascii=False)
    if len(line) + indent < MAX_LINE_CHARS - indent or not isinstance(value, dict | list):
        return line
    inner = " " * (indent + 2)
    if isinstance(value, dict):
        entries = [
            f"{json.dumps(key)}: {_layout(result, indent + 2)}" for key, result in value.items()
        ]
    else:
        entries = [_layout(item, indent + 2) for item in value]
    opening, closing = "{}" if isinstance(value, dict) else "[]"
    return f"{opening}\n{inner}" + f",\n{inner}".join(entries) + f"\n{' ' * indent}{closing}"


def main(arguments: Sequence[str]) -> None:
    """Print the page, or the example."""
    print(example_config() if "--example" in arguments else settings_page(), end="")


if __name__ == "__main__":
    main(sys.argv[1:])
