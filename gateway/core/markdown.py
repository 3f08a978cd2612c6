"""Text in a reply that is written in markdown."""

import re

# A backslash before these is read as the start of a formula (`\\[`), or does not help.
_ENTITIES = {ord(char): f"&#{ord(char)};" for char in "[]$&"}
_ESCAPES = {ord(char): f"\\{char}" for char in "\\`*_<>~|#"}
# What makes a list, a rule or a heading of a line.
_FIRST = re.compile(r"^(\s*)(?:([-+=])|(\d{1,9})([.)]))")

# Where a block of code begins: in a quotation or a list, perhaps.
_FENCE = re.compile(r"(?P<within>(?:[ \t>]|[-*+] |\d{1,9}[.)] )*)(?P<fence>`{3,}(?=[^`]*$)|~{3,})")


def escape_markdown(text: str) -> str:
    """Names and titles, which come out as they are: nothing in them is markdown. A line for each
    line of theirs."""
    return "\n".join(map(_line, text.split("\n")))


def code(text: str) -> str:
    """One line of inline code that shows the text as it is."""
    line = " ".join(text.split())
    fence = "`" * (max(map(len, re.findall("`+", line)), default=0) + 1)
    # Without a blank the fence and what it holds would run into each other.
    gap = " " if line.startswith("`") or line.endswith("`") else ""
    return f"{fence}{gap}{line}{gap}{fence}"


def code_block(text: str, language: str = "") -> str:
    """Return a block of code that shows the text as it is, whatever marks it has."""
    fence = "`" * max(3, max(map(len, re.findall("`+", text)), default=0) + 1)
    return f"{fence}{language}\n{text}\n{fence}"


def close_code_block(text: str) -> str:
    """The text, whose last block of code is closed: what is written below it is not code."""
    within, fence, inside = "", "", False
    for line in text.split("\n"):
        if fence and re.fullmatch(rf"[ \t>]*{fence[0]}{{{len(fence)},}}[ \t]*", line):
            fence = ""
            continue
        if inside and _leaves(line, within):
            fence = ""
        if not fence and (match := _FENCE.match(line)):
            within, fence = re.sub(r"[^>\s]", " ", match["within"]), match["fence"]
            inside = bool(match["within"].strip())
    return f"{text}\n{within}{fence}" if fence else text


def _leaves(line: str, within: str) -> bool:
    """Whether the line ends the quotation or the item of a list that code stands in."""
    if not line.strip():
        return False
    return not (line.lstrip().startswith(">") if ">" in within else line.startswith(within))


def _line(text: str) -> str:
    plain = text.translate(_ENTITIES | _ESCAPES)
    return _FIRST.sub(lambda match: _first(*match.groups()), plain)


def _first(blank: str, sign: str | None, number: str | None, end: str | None) -> str:
    return f"{blank}\\{sign}" if sign else f"{blank}{number}\\{end}"
