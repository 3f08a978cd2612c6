"""Escaping of plain text in replies that are written in markdown."""

import re

# A backslash before these starts a formula (`\\[`) or has no effect.
_ENTITIES = {ord(char): f"&#{ord(char)};" for char in "[]$&"}
_ESCAPES = {ord(char): f"\\{char}" for char in "\\`*_<>~|#"}
# Line starts that make a list, a rule or a heading.
_FIRST = re.compile(r"^(\s*)(?:([-+=])|(\d{1,9})([.)]))")

# Code, in which nothing is escaped, or an escaped character.
_CODE_OR_ESCAPE = re.compile(
    r"(?P<code>(?P<fence>`+).*?(?<!`)(?P=fence)(?!`))"
    r"|\\(?P<char>[!-/:-@\[-`{-~])|&#(?P<number>\d{1,7});",
    re.DOTALL,
)

# Line break with surrounding spaces.
_BREAK = re.compile(r"\s*[\n\r]\s*")
# Start of a block of code, possibly in a quotation or a list.
_FENCE = re.compile(r"(?P<within>(?:[ \t>]|[-*+] |\d{1,9}[.)] )*)(?P<fence>`{3,}(?=[^`]*$)|~{3,})")


def escape_markdown(text: str) -> str:
    """Return names and titles with all markdown escaped, line by line."""
    return "\n".join(map(_line, text.split("\n")))


def unescape_markdown(text: str) -> str:
    """Return Kore's own markdown for a reader of plain text: without escapes."""
    return _CODE_OR_ESCAPE.sub(_plain, text)


def _plain(match: re.Match[str]) -> str:
    return match["code"] or match["char"] or chr(int(match["number"]))


def join_lines(text: str) -> str:
    """Return the text on one line; spaces that are not at a line break are preserved."""
    return _BREAK.sub(" ", text.strip("\r\n"))


def code(text: str) -> str:
    """Return one line of inline code that shows the text verbatim."""
    line = join_lines(text)
    fence = "`" * (max(map(len, re.findall("`+", line)), default=0) + 1)
    # Without a space, the fence and its content would run together; and Markdown strips one space
    # from each end of a content with spaces at both ends.
    is_padded = line.startswith(" ") and line.endswith(" ") and line.strip() != ""
    gap = " " if line.startswith("`") or line.endswith("`") or is_padded else ""
    return f"{fence}{gap}{line}{gap}{fence}"


def code_block(text: str, language: str = "") -> str:
    """Return a block of code that shows the text verbatim, including its backticks."""
    fence = "`" * max(3, max(map(len, re.findall("`+", text)), default=0) + 1)
    return f"{fence}{language}\n{text}\n{fence}"


def close_code_block(text: str) -> str:
    """Return the text with its last block of code closed, so that text below it is not code."""
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
    """Return whether the line ends the quotation or list item that contains the code."""
    if not line.strip():
        return False
    return not (line.lstrip().startswith(">") if ">" in within else line.startswith(within))


def _line(text: str) -> str:
    plain = text.translate(_ENTITIES | _ESCAPES)
    if plain.endswith(" "):  # Markdown drops spaces at the end of a line.
        plain = f"{plain[:-1]}&#32;"
    return _FIRST.sub(lambda match: _first(*match.groups()), plain)


def _first(blank: str, sign: str | None, number: str | None, end: str | None) -> str:
    return f"{blank}\\{sign}" if sign else f"{blank}{number}\\{end}"
