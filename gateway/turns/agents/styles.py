"""Output styles: styles of answers that a person selects for a conversation with `/style`."""

from collections.abc import Iterator
from pathlib import Path

from agent.records import frozen
from agent.security.files.safe_open import open_regular
from agent.text import frontmatter
from agent.text.visible import escape_line
from gateway.config.installed_plugins import InstalledPlugins
from gateway.runtime.paths import DataDir

FOLDER = "output-styles"
_MAX_BYTES = 100_000
_MAX_CHARS = 8_000
_MAX_FILES = 200


@frozen
class OutputStyle:
    """Style instructions for the model; untrusted unless they are the person's `own`."""

    name: str
    description: str
    text: str
    is_own: bool


def load_styles(home: DataDir) -> dict[str, OutputStyle]:
    """Return the styles by name; a person's style overrides a plugin's. Blocks."""
    plugins = [folder for _, folder in InstalledPlugins(home.plugins).places("styles")]
    own = [Path.home() / ".claude" / FOLDER, home.root / FOLDER]
    styles = [*_styles(plugins, is_own=False), *_styles(own, is_own=True)]
    return {style.name.casefold(): style for style in styles}


def find_style(home: DataDir, name: str) -> OutputStyle | None:
    return load_styles(home).get(name.casefold())


def _styles(places: list[Path], *, is_own: bool) -> Iterator[OutputStyle]:
    for place in places:
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
            description = " ".join(str(content.fields.get("description") or "").split())
            # The final line break distinguishes the text from a file name.
            body = f"{content.body.strip()[:_MAX_CHARS]}\n"
            yield OutputStyle(name, escape_line(description), body, is_own)
