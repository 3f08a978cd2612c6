"""Tags of files: their definitions and the names that they use.

Many files are read in a process of its own, so that Kore does not wait for their texts. It reads
paths from its standard input, a line of JSON each, and answers each with a line.
"""

import json
import sys
from pathlib import Path
from typing import Any

from agent.code.symbols.outline import symbols_from
from agent.code.symbols.parsing import LIMIT_BYTES, language_of, parse
from agent.errors import ToolError
from agent.records import frozen

# Of one file; what is used most comes first.
MOST_NAMES = 200
MOST_DEFINITIONS = 300
_NAME_CHARS = 80


@frozen
class FileTags:
    """Definitions as (name, line from 1, text), and how often each name is used."""

    definitions: tuple[tuple[str, int, str], ...]
    names: tuple[tuple[str, int], ...]

    def to_json(self) -> list[Any]:
        return [self.definitions, self.names]

    @staticmethod
    def from_json(data: Any) -> "FileTags":
        """Names are kept once, however many files use them."""
        definitions, names = data
        return FileTags(
            tuple((sys.intern(name), int(line), str(text)) for name, line, text in definitions),
            tuple((sys.intern(name), int(count)) for name, count in names),
        )


NO_TAGS = FileTags((), ())


def tags_of(data: bytes, path: Path) -> FileTags:
    """Raises `ToolError` for a file that cannot be parsed."""
    language = language_of(path)
    if language is None or not language.definitions:
        return NO_TAGS
    parsed = parse(data, language, definitions=True, max_names=MOST_NAMES)
    definitions = tuple(
        (symbol.name[:_NAME_CHARS], symbol.first, symbol.text)
        for symbol in symbols_from(data, parsed.definitions[:MOST_DEFINITIONS])
    )
    names = tuple((name, n) for name, n in parsed.names if 0 < len(name) <= _NAME_CHARS)
    return FileTags(definitions, names)


def main() -> int:
    """Answer until the input ends."""
    from agent.security.files import file_io
    from agent.tools.child_process import limit

    limit()
    for line in sys.stdin:
        name = json.loads(line)
        try:
            tags = tags_of(file_io.read(Path(name), LIMIT_BYTES), Path(name))
        except ToolError:
            # Too large, gone, or not to be parsed: it has no place on the map.
            tags = NO_TAGS
        print(json.dumps([name, tags.to_json()]), flush=True)
    return 0
