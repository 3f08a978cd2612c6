"""Syntax trees as plain data, with those attributes of tree-sitter's nodes that Kore reads."""

from collections.abc import Mapping
from typing import Any

from agent.records import frozen

_NUMBERS = 6


class SyntaxNode:
    """A node of a syntax tree: its kind, its place in the source, and its children."""

    __slots__ = (
        "_source", "children", "end_byte", "field", "is_named", "parent_type", "start_byte", "type"
    )  # fmt: skip

    def __init__(self, source: bytes, kind: str, start_byte: int, end_byte: int) -> None:
        self._source, self.type = source, kind
        self.start_byte, self.end_byte = start_byte, end_byte
        self.is_named = False
        self.field: str | None = None
        self.parent_type: str | None = None
        self.children: list[SyntaxNode] = []

    @property
    def text(self) -> bytes:
        return self._source[self.start_byte : self.end_byte]

    def children_by_field_name(self, name: str) -> "list[SyntaxNode]":
        return [child for child in self.children if child.field == name]


@frozen
class SyntaxTree:
    """A root, and whether its source has parts that the grammar does not expect."""

    root: SyntaxNode
    has_error: bool


def decode_tree(data: Mapping[str, Any], source: bytes) -> SyntaxTree:
    """Return the tree that the parser sent.

    Raises ValueError, LookupError or TypeError for data that does not describe this source.
    """
    names, numbers = data["names"], data["nodes"]
    # From the last node to the first, so that the children of each node are on the stack.
    stack: list[SyntaxNode] = []
    for at in range(len(numbers) - _NUMBERS, -1, -_NUMBERS):
        kind, start, end, is_named, field, count = numbers[at : at + _NUMBERS]
        if not (0 <= start <= end <= len(source) and 0 <= count <= len(stack)):
            raise ValueError("no tree of this source")
        node = SyntaxNode(source, str(names[kind]), start, end)
        node.is_named, node.field = bool(is_named), names[field]
        if count:
            node.children = stack[: -count - 1 : -1]
            del stack[-count:]
            for child in node.children:
                child.parent_type = node.type
        stack.append(node)
    (root,) = stack
    return SyntaxTree(root, bool(data["has_error"]))
