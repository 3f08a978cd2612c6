"""Reordering of heredocs for the bash grammar.

The grammar mistakes a pipe after `<<E 2>&1` for an argument. A shell opens the redirections of a
command from left to right, and a heredoc affects only standard input, so `2>&1 <<E` means the same.
"""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from agent.records import frozen

if TYPE_CHECKING:
    from agent.security.grammars.parser_process import SyntaxTree

_HEREDOC = rb"(?<=[ \t])<<-?[ \t]*(?:'\w+'|\"\w+\"|\w+)"
_OUTPUT = rb"(?:[12]?>&[12]|[12]?>{1,2}[ \t]*[\w./-]+)"
_MISUNDERSTOOD = re.compile(
    rb"(%s)([ \t]+)(%s(?:[ \t]+%s)*)(?=[ \t]*\|(?![|&]))" % (_HEREDOC, _OUTPUT, _OUTPUT)
)


@frozen
class ReorderedSource:
    """Source of the same length, with output redirections in front of heredocs.

    `places` are the bytes at which the redirections and the heredoc of each pair begin.
    """

    source: bytes
    places: Sequence[tuple[int, int]]

    def is_confirmed(self, tree: "SyntaxTree") -> bool:
        """Return whether the tree has redirections at all places.

        Then the text before each place, which is unchanged, has no open quote or comment.
        """
        starts: dict[str, set[int]] = {"file_redirect": set(), "heredoc_redirect": set()}
        nodes = [tree.root]
        while nodes:
            node = nodes.pop()
            if node.type in starts:
                starts[node.type].add(node.start_byte)
            nodes += node.children
        return not tree.has_error and all(
            output in starts["file_redirect"] and heredoc in starts["heredoc_redirect"]
            for output, heredoc in self.places
        )


def reorder(source: bytes) -> ReorderedSource | None:
    """Return the source in the order that the grammar understands, or None if nothing changes."""
    places = [
        (match.start(), match.start(3) - match.end(1) + len(match[3]) + match.start())
        for match in _MISUNDERSTOOD.finditer(source)
    ]
    if not places:
        return None
    return ReorderedSource(_MISUNDERSTOOD.sub(rb"\3\2\1", source), places)
