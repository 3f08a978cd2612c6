"""Cuts a text into blocks."""

import re
from dataclasses import dataclass, field

HEADING = re.compile(r"(#{1,6})\s+(.*?)\s*#*$")
ITEM = re.compile(r"[-*+]\s+(.*)$")
RULE = re.compile(r"(-{3,}|\*{3,}|_{3,})$")
FENCE = re.compile(r"```\s*(\w*)$")


@dataclass
class Block:
    kind: str
    text: str = ""
    level: int = 0
    items: list = field(default_factory=list)


def split_blocks(text):
    """The blocks of the text, in order."""
    lines = text.split("\n")
    blocks, position = [], 0
    while position < len(lines):
        line = lines[position].strip()
        if not line:
            position += 1
        elif match := FENCE.match(line):
            block, position = _fenced(lines, position, match[1])
            blocks.append(block)
        elif match := HEADING.match(line):
            blocks.append(Block("heading", match[2], len(match[1])))
            position += 1
        elif RULE.match(line):
            blocks.append(Block("rule"))
            position += 1
        elif ITEM.match(line):
            block, position = _list(lines, position)
            blocks.append(block)
        else:
            block, position = _paragraph(lines, position)
            blocks.append(block)
    return blocks


def _fenced(lines, position, language):
    """Everything up to the closing fence, or to the end when it is missing."""
    code = []
    position += 1
    while position < len(lines) and lines[position].strip() != "```":
        code.append(lines[position])
        position += 1
    return Block("code", "\n".join(code), items=[language] if language else []), position + 1


def _list(lines, position):
    items = []
    while position < len(lines) and (match := ITEM.match(lines[position].strip())):
        items.append(match[1])
        position += 1
    return Block("list", items=items), position


def _paragraph(lines, position):
    words = []
    while position < len(lines) and (line := lines[position].strip()):
        if HEADING.match(line) or RULE.match(line) or ITEM.match(line) or FENCE.match(line):
            break
        words.append(line)
        position += 1
    return Block("paragraph", " ".join(words)), position
