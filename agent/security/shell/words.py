"""Shell words: conversion of source text to the argument that a program receives."""

import re

# Text without any special meaning in a shell.
PLAIN = re.compile(r"[A-Za-z0-9_./,:=@%+^-]+")
PIECES = re.compile(
    r"'(?P<raw>[^']*)'"
    r"|\$?\"(?P<double>(?:[^\"\\]|\\.)*)\""
    r"|\$'(?P<ansi>(?:[^'\\]|\\.)*)'"
    r"|\\(?P<escaped>.)"
    r"|(?P<bare>[^'\"\\$`|&;<>() \t\n]+|\$(?![A-Za-z0-9_{(@*#?$!'\"-]))",
    re.DOTALL,
)
EXPANDS = re.compile(r"(?<!\\)(?:\\\\)*(?:\$[A-Za-z0-9_{(@*#?$!-]|`)")
# Start of a word that cannot be an option, whatever the shell computes after it.
TEXT_START = re.compile(r"""%|"?(?:[^\s"'$`\\{*?\[~-]|\\[^\n])""")
BRACES = re.compile(r"\{[^{}]*(?:,|\.\.)[^{}]*\}?")
GLOB = re.compile(r"[*?\[]")
DOUBLE_ESCAPE = re.compile(r"\\([$`\"\\\n])")
ANSI_ESCAPE = re.compile(
    r"\\(?:([0-7]{1,3})|x([0-9A-Fa-f]{1,2})|u([0-9A-Fa-f]{1,4})|U([0-9A-Fa-f]{1,8})|c(.)|(.))",
    re.DOTALL,
)
ANSI_LETTERS = {
    "a": "\a", "b": "\b", "e": "\x1b", "E": "\x1b", "f": "\f", "n": "\n", "r": "\r", "t": "\t",
    "v": "\v",
}  # fmt: skip


def unquote_word(text: str) -> str | None:
    """Return the value of the word written as `text`, with quotes and escapes resolved.

    Returns None if the shell computes the value: variables, substitutions, braces. A tilde and the
    wildcards of a file pattern are left unchanged.
    """
    if PLAIN.fullmatch(text):
        return text
    value: list[str] = []
    at = 0
    for piece in PIECES.finditer(text):
        part = _value(piece)
        if part is None or piece.start() != at:
            return None
        value.append(part)
        at = piece.end()
    return "".join(value) if at == len(text) else None


def is_pattern(text: str) -> bool:
    """Return whether the word written as `text` has a wildcard outside quotes."""
    if not GLOB.search(text):
        return False
    return any(GLOB.search(piece["bare"] or "") for piece in PIECES.finditer(text))


def is_single(text: str) -> bool:
    """Return whether the word written as `text` is one argument, whatever the shell computes.

    False for a word with an expansion outside of double quotes, for `"$@"`, and if in doubt.
    """
    if text[:1] != '"' or "`" in text or "$'" in text:
        return False
    at = _after_string(text, 1)
    return at == len(text)


def _after_string(text: str, at: int) -> int:
    """Return the position after a double-quoted string that begins before `at`; -1 in doubt."""
    while at < len(text):
        if text[at] == '"':
            return at + 1
        if text.startswith("$(", at):
            at = _after_substitution(text, at + 2)
            if at < 0:
                return at
            continue
        if text.startswith("$@", at):
            return -1
        if text.startswith("${", at):
            end = text.find("}", at)
            if end < 0 or any(mark in text[at:end] for mark in "@\"'\\"):
                return -1
        at += 2 if text[at] == "\\" else 1
    return -1


def _after_substitution(text: str, at: int) -> int:
    """Return the position after a substitution that begins before `at`; -1 in doubt."""
    depth = 1
    while at < len(text):
        char = text[at]
        if char == '"':
            at = _after_string(text, at + 1)
            if at < 0:
                return at
            continue
        if char == "'":
            at = text.find("'", at + 1)
            if at < 0:
                return at
        depth += (char == "(") - (char == ")")
        if depth == 0:
            return at + 1
        at += 2 if char == "\\" else 1
    return -1


def _value(piece: re.Match[str]) -> str | None:
    kind = piece.lastgroup
    text = piece[kind] if kind else ""
    if kind == "double":
        return None if EXPANDS.search(text) else DOUBLE_ESCAPE.sub(_unescape, text)
    if kind == "ansi":
        # A NUL ends the string, as in C.
        return ANSI_ESCAPE.sub(_ansi, text).partition("\0")[0]
    if kind == "escaped":
        return "" if text == "\n" else text
    if kind == "bare" and "{" in text and BRACES.search(text):
        return None
    return text


def _unescape(match: re.Match[str]) -> str:
    return "" if match[1] == "\n" else match[1]


def _ansi(match: re.Match[str]) -> str:
    octal, hexa, short, wide, control, letter = match.groups()
    if octal:
        return chr(int(octal, 8) & 0xFF)
    if code := hexa or short or wide:
        number = int(code, 16)
        return chr(number) if number < 0x110000 else "\ufffd"
    if control:
        return chr(ord(control) & 0x1F)
    return ANSI_LETTERS.get(letter, letter if letter in "\\'\"?" else "\\" + letter)
