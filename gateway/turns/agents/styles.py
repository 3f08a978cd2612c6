"""Output styles: styles of answers that a person selects for a conversation with `/style`."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from agent.records import frozen
from agent.security.files.safe_open import open_regular
from agent.text import frontmatter
from agent.text.plugin_names import distinct_names, entry_name, find_named
from agent.text.visible import escape_line
from gateway.config.installed_plugins import InstalledPlugins
from gateway.runtime.paths import DataDir

FOLDER = "output-styles"
_MAX_BYTES = 100_000
_MAX_CHARS = 8_000
_MAX_FILES = 200


@frozen
class OutputStyle:
    """Style instructions for the model; untrusted if they came with a `plugin`."""

    name: str
    description: str
    text: str
    plugin: str = ""

    @property
    def is_own(self) -> bool:
        return not self.plugin


def load_styles(home: DataDir) -> dict[str, OutputStyle]:
    """Return the styles by name. Blocks.

    The name of a plugin's style is PLUGIN:NAME if another style has the same name.
    """
    places = [Path.home() / ".claude" / FOLDER, home.root / FOLDER]
    own = {style.name.casefold(): style for place in places for style in _styles(place)}
    of_plugins = [
        style
        for plugin, place in InstalledPlugins(home.plugins).places("styles")
        for style in _styles(place, plugin)
    ]
    by_name = {style.name: style for style in own.values()}
    entries = distinct_names(of_plugins, by_name, str.casefold)
    return {name: replace(style, name=name) for name, style in entries.items()}


def find_style(home: DataDir, name: str) -> OutputStyle | None:
    """Return the style of this name, or a plugin's style by PLUGIN:NAME. Blocks."""
    return find_named(load_styles(home), name, str.casefold)


def _styles(place: Path, plugin: str = "") -> Iterator[OutputStyle]:
    files = sorted(place.glob("*.md"))[:_MAX_FILES] if place.is_dir() else [place]
    for path in files:
        try:
            with open_regular(path) as file:
                raw = file.read(_MAX_BYTES)
        except OSError:
            # A missing file, or a path that is not a file, is ignored.
            continue
        text, _ = frontmatter.decode(raw)
        content = frontmatter.read(text)
        name = escape_line(str(content.fields.get("name") or path.stem).strip())
        if plugin:
            name = entry_name(plugin, name)
        description = " ".join(str(content.fields.get("description") or "").split())
        # The final line break distinguishes the text from a file name.
        body = f"{content.body.strip()[:_MAX_CHARS]}\n"
        yield OutputStyle(name, escape_line(description), body, plugin)
