"""Tags of a file: its definitions and the names that it uses.

Many files are parsed in a separate process, so that Kore does not block. The process reads paths
from its standard input, as one JSON value per line, and answers each with a line.
"""

import json
import sys
from pathlib import Path
from typing import Any

from agent.code.symbols.outline import symbols_from
from agent.code.symbols.parsing import MAX_BYTES, language_of, parse
from agent.errors import ToolError
from agent.records import frozen
from agent.security.files import file_io
from agent.tools.child_process import limit

# Per file; the most used names come first.
MAX_NAMES = 200
MAX_DEFINITIONS = 300
_MAX_NAME_CHARS = 80


@frozen
class FileTags:
    """Definitions as (name, line from 1, text), and how often each name is used."""

    definitions: tuple[tuple[str, int, str], ...]
    names: tuple[tuple[str, int], ...]

    def to_json(self) -> list[Any]:
        return [self.definitions, self.names]

    @staticmethod
    def from_json(data: Any) -> "FileTags":
        """Parse tags; names are interned, because many files use the same ones."""
        definitions, names = data
        return FileTags(
            tuple((sys.intern(name), int(line), str(text)) for name, line, text in definitions),
            tuple((sys.intern(name), int(count)) for name, count in names),
        )


NO_TAGS = FileTags((), ())


def tags_of(data: bytes, path: Path) -> FileTags:
    """Return the tags of a file. Raises `ToolError` when it cannot be parsed."""
    language = language_of(path)
    if language is None or not language.definitions:
        return NO_TAGS
    parsed = parse(data, language, definitions=True, max_names=MAX_NAMES)
    definitions = tuple(
        (symbol.name[:_MAX_NAME_CHARS], symbol.first, symbol.text)
        for symbol in symbols_from(data, parsed.definitions[:MAX_DEFINITIONS])
    )
    names = tuple((name, n) for name, n in parsed.names if 0 < len(name) <= _MAX_NAME_CHARS)
    return FileTags(definitions, names)


def main() -> int:
    """Answer requests until the input ends."""
    limit()
    for line in sys.stdin:
        name = json.loads(line)
        try:
            tags = tags_of(file_io.read(Path(name), MAX_BYTES), Path(name))
        except ToolError:
            # Too large, deleted or not parseable: leave it out of the map.
            tags = NO_TAGS
        print(json.dumps([name, tags.to_json()]), flush=True)
    return 0
