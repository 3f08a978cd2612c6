"""Conversion of text files: encodings and line endings are preserved for unchanged text."""

import codecs
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from agent.errors import ToolError
from agent.records import frozen
from agent.text.legacy_encodings import ambiguous_lines, detect_encoding

MAX_BYTES = 20_000_000
# Larger files are not compared; at this size a diff takes well under a second.
DIFF_LIMIT_CHARS = 400_000
# Limit for quoting a file that a model has changed or misquoted.
MAX_QUOTE_BYTES = 2_000
_MAX_LINE_CHARS = 200
_TOO_LARGE = "@@ too large to compare:"

# UTF-32 comes first: its byte order mark begins like the one of UTF-16.
_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)

# Control characters, and the upper half except letters, the non-breaking space and § © « ° ´ ».
_NOT_LATIN = re.compile(rb"[\x00-\x08\x0e-\x1f\x7f-\x9f\xd7\xf7]|[\xa1-\xbf]"
                        rb"(?<![\xa7\xa9\xab\xb0\xb4\xbb])")  # fmt: skip
_LATIN_RUN = re.compile(rb"[\x80-\xff]{3}")
_BEYOND_ASCII = re.compile(rb"[\x80-\xff]")
_LETTERS = re.compile(rb"[A-Za-z]")


@frozen
class TextFormat:
    """Encoding of a text file, by Python's name, and its byte order mark.

    "latin-1" also covers other single-byte encodings that agree with it on the file's content.
    `ambiguous_lines` are the ambiguous lines already in the file (see `legacy_encodings`).
    """

    encoding: str = "utf-8"
    byte_order_mark: bytes = b""
    ambiguous_lines: frozenset[str] = frozenset()

    @staticmethod
    def of(data: bytes) -> "TextFormat":
        """Detect the format from the first bytes of a file."""
        for mark, encoding in _MARKS:
            if data.startswith(mark):
                return TextFormat(encoding, mark)
        return TextFormat()

    @property
    def is_legacy(self) -> bool:
        """True for an encoding that lacks most characters."""
        return not self.encoding.startswith("utf-")

    def encode(self, text: str) -> bytes:
        """Encode text without the mark. Raises `ToolError` for characters outside of the
        encoding."""
        for line in ambiguous_lines(text, self.encoding) - self.ambiguous_lines:
            raise ToolError(
                f"The file is in {self.encoding}, where a character of this line contains the byte "
                f"of a backtick, a backslash or |, which programs may obey: {line.strip()[:60]!r}. "
                "Write the line without it, or convert the file to UTF-8 first (iconv)."
            )
        try:
            return text.encode(self.encoding)
        except UnicodeEncodeError as exc:
            code_point = hex(ord(text[exc.start]))
            if self.is_legacy:
                raise ToolError(
                    f"The file is in {self.encoding}, which has no {text[exc.start]!r}; remove it, "
                    "or rewrite the whole file with write_file, which saves it as UTF-8."
                ) from exc
            raise ToolError(
                f"Character {exc.start + 1} of the text ({code_point}) is half a surrogate pair; "
                "write the whole character."
            ) from exc


@frozen
class Document:
    """Whole text of a file with its original line endings, and its format."""

    text: str
    form: TextFormat

    def encode(self) -> bytes:
        """Return the file's bytes; for unchanged text, exactly the original bytes."""
        return self.form.byte_order_mark + self.form.encode(self.text)


def decode(data: bytes, path: Path) -> Document:
    """Decode strictly. Raises `ToolError` for binary files and undecodable bytes."""
    form = TextFormat.of(data)
    refuse_binary(data, form, path)
    try:
        text = data[len(form.byte_order_mark) :].decode(form.encoding)
    except UnicodeDecodeError as exc:
        if not form.byte_order_mark and (encoding := legacy_encoding(data)):
            text = data.decode(encoding)
            return Document(text, TextFormat(encoding, b"", ambiguous_lines(text, encoding)))
        line = data.count(b"\n", 0, exc.start) + 1
        raise ToolError(
            f"{path} is not valid {form.encoding} (line {line}), and its encoding is unclear; it "
            "was not changed, because an edit would damage it. If you know the encoding, convert "
            "the file first: iconv -f ENCODING -t UTF-8 FILE > NEW."
        ) from exc
    return Document(text, form)


def legacy_encoding(data: bytes) -> str | None:
    """Return the encoding of bytes that are not UTF-8, or None if it is unclear."""
    return "latin-1" if is_latin(data) else detect_encoding(data)


def is_latin(data: bytes) -> bool:
    """Return whether bytes that are not UTF-8 are latin-1, or similar enough to be safe to edit.

    All non-ASCII bytes must be letters or a few common symbols, rare, and never many in a row:
    other alphabets and two-byte encodings look different.
    """
    return not (_NOT_LATIN.search(data) or _LATIN_RUN.search(data)) and (
        len(_BEYOND_ASCII.findall(data)) * 3 <= len(_LETTERS.findall(data))
    )


def refuse_binary(data: bytes, form: TextFormat, path: Path) -> None:
    """Raise `ToolError` for bytes that are not text in any encoding."""
    if not form.encoding.startswith(("utf-16", "utf-32")) and b"\0" in data[:8192]:
        raise ToolError(f"{path} is a binary file ({len(data):,} bytes), not text.")


def searchable(data: bytes) -> list[str] | None:
    """Return the lines of a file with undecodable bytes replaced; None for a binary file.

    UTF-32 counts as binary, because ripgrep does not support it.
    """
    form = TextFormat.of(data)
    text = data[len(form.byte_order_mark) :].decode(form.encoding, "replace")
    return None if "\0" in text or form.encoding.startswith("utf-32") else lines_of(text)


def lines_of(text: str) -> list[str]:
    """Return lines without line breaks; a final line break does not start another line."""
    lines = text.replace("\r\n", "\n").split("\n")
    return lines[:-1] if lines[-1] == "" else lines


def line_ending(text: str) -> str:
    """Return the most frequent line ending of a text."""
    count = text.count("\r\n")
    return "\r\n" if count > text.count("\n") - count else "\n"


def quote_lines(
    lines: Sequence[str],
    regions: Iterable[tuple[int, int]],
    *,
    around: int = 3,
    limit_bytes: int = MAX_QUOTE_BYTES,
) -> str:
    """Return numbered lines for a model: the regions (from 0, end excluded) and `around` lines next
    to them.

    Long lines and the whole text are cut.
    """
    visible: dict[int, None] = {}
    for start, end in sorted(regions):
        visible |= dict.fromkeys(range(max(0, start - around), min(len(lines), end + around)))
    quoted: list[str] = []
    room = limit_bytes - len("… (999,999 more lines)")
    for count, n in enumerate(visible):
        line = lines[n]
        if len(line) > _MAX_LINE_CHARS:
            line = f"{line[:_MAX_LINE_CHARS]}… ({len(line):,} characters)"
        line = f"{n + 1}\t{line}"
        room -= len(line.encode("utf-8", "replace")) + 1
        if room < 0:
            return "\n".join([*quoted, f"… ({len(visible) - count:,} more lines)"])
        quoted.append(line)
    return "\n".join(quoted)


def diff(name: str, before: str, after: str) -> str:
    """Return a unified diff with 3 lines of context; empty for equal texts."""
    if before == after:
        return ""
    header = f"--- {name}\n+++ {name}\n"
    if len(before) + len(after) > DIFF_LIMIT_CHARS:
        return f"{header}{_TOO_LARGE} {len(before):,} -> {len(after):,} characters @@"
    old, new = _diff_lines(before), _diff_lines(after)
    import difflib

    body = difflib.unified_diff(old, new, name, name, n=3, lineterm="")
    return "\n".join(body)


def is_compared(diff_text: str) -> bool:
    """Return whether a diff shows the changes instead of a note that the texts are too large."""
    return not "".join(diff_text.split("\n", 3)[2:3]).startswith(_TOO_LARGE)


def _diff_lines(text: str) -> list[str]:
    lines = text.split("\n")
    # A changed line ending must be visible in the diff.
    lines = [line[:-1] + "␍" if line.endswith("\r") else line for line in lines]
    if lines[-1] == "":
        return lines[:-1]
    lines[-1] += "\n\\ No newline at end of file"
    return lines
