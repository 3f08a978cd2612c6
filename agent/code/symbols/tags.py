"""What a file defines and which names it uses, in a process of its own: files are strangers' texts,
and a parser holds up all of Python.

The process reads paths from its standard input, a line of JSON each, and answers each with a line.
"""

import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

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
    from tree_sitter import QueryCursor

    from agent.code.symbols.outline import symbols_in
    from agent.code.symbols.parsing import language_of, parse, query

    language = language_of(path)
    if language is None or not language.definitions:
        return NO_TAGS
    tree = parse(data, language)
    definitions = tuple(
        (symbol.name[:_NAME_CHARS], symbol.first, symbol.text)
        for symbol in symbols_in(data, tree, language)[:MOST_DEFINITIONS]
    )
    captures = QueryCursor(query(language, language.references)).captures(tree.root_node)
    counts = Counter(node.text for node in captures.get("name", ()))
    names = tuple(
        (name.decode("utf-8", "replace"), count)
        for name, count in counts.most_common(MOST_NAMES)
        if name and len(name) <= _NAME_CHARS
    )
    return FileTags(definitions, names)


def main() -> int:
    """Answer until the input ends."""
    from agent.security.files import file_io
    from agent.tools.child_process import limit

    limit()
    from agent.code.symbols.parsing import LIMIT_BYTES

    for line in sys.stdin:
        name = json.loads(line)
        try:
            tags = tags_of(file_io.read(Path(name), LIMIT_BYTES), Path(name))
        except ToolError:
            # Too large, gone, or not to be parsed: it has no place on the map.
            tags = NO_TAGS
        print(json.dumps([name, tags.to_json()]), flush=True)
    return 0
