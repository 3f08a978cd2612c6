"""Text files as bytes: which encoding, which line ends, and back again without a changed byte."""

import codecs
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from agent.errors import ToolError
from agent.records import frozen

LIMIT_BYTES = 20_000_000
# A file of this size is compared in well under a second; a larger one is named, not compared.
DIFF_LIMIT_CHARS = 400_000
# As much of a file is quoted to a model that changed it, or quoted it wrongly.
QUOTE_BYTES = 2_000
_QUOTED_CHARS = 200
_TOO_LARGE = "@@ too large to compare:"

# The order matters: the mark of UTF-32 begins with that of UTF-16.
_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)

# Controls; and of the upper half all but letters, the hard blank and § © « ° ´ ».
_NOT_LATIN = re.compile(rb"[\x00-\x08\x0e-\x1f\x7f-\x9f\xd7\xf7]|[\xa1-\xbf]"
                        rb"(?<![\xa7\xa9\xab\xb0\xb4\xbb])")  # fmt: skip
_LATIN_RUN = re.compile(rb"[\x80-\xff]{3}")
_BEYOND_ASCII = re.compile(rb"[\x80-\xff]")
_LETTERS = re.compile(rb"[A-Za-z]")


@frozen
class TextFormat:
    """How a text is stored: its encoding and the byte order mark before it.

    "latin-1" stands for every encoding of single bytes that is like it in what the file holds.
    """

    encoding: str = "utf-8"
    byte_order_mark: bytes = b""

    @staticmethod
    def of(data: bytes) -> "TextFormat":
        """The form that the first bytes of a file announce."""
        for mark, encoding in _MARKS:
            if data.startswith(mark):
                return TextFormat(encoding, mark)
        return TextFormat()

    def encode(self, text: str) -> bytes:
        """Bytes without the mark. Raises ToolError for what the encoding cannot hold."""
        try:
            return text.encode(self.encoding)
        except UnicodeEncodeError as exc:
            code_point = hex(ord(text[exc.start]))
            if self.encoding == "latin-1":
                raise ToolError(
                    f"The file is in latin-1, which has no {text[exc.start]!r}; remove it, or "
                    "rewrite the whole file with write_file, which saves it as UTF-8."
                ) from exc
            raise ToolError(
                f"Character {exc.start + 1} of the text ({code_point}) is half a surrogate pair; "
                "write the whole character."
            ) from exc


@frozen
class Document:
    """The whole text of a file, line ends as they are, and its form."""

    text: str
    form: TextFormat

    def encode(self) -> bytes:
        """The file's bytes; for an unchanged text exactly those it was made of."""
        return self.form.byte_order_mark + self.form.encode(self.text)


def decode(data: bytes, path: Path) -> Document:
    """Decode strictly. Raises ToolError for binary files and for bytes that are no text."""
    form = TextFormat.of(data)
    refuse_binary(data, form, path)
    try:
        text = data[len(form.byte_order_mark) :].decode(form.encoding)
    except UnicodeDecodeError as exc:
        if not form.byte_order_mark and is_latin(data):
            return Document(data.decode("latin-1"), TextFormat("latin-1"))
        line = data.count(b"\n", 0, exc.start) + 1
        raise ToolError(
            f"{path} is not valid {form.encoding} (line {line}); it was not changed, because an "
            "edit would damage it."
        ) from exc
    return Document(text, form)


def is_latin(data: bytes) -> bool:
    """Whether bytes that are no UTF-8 are surely latin-1, or so alike that nothing is damaged.

    All beyond ASCII are its letters and a few common signs, few, and never many in a row: texts in
    other alphabets, and those whose characters take two bytes, look different.
    """
    return not (_NOT_LATIN.search(data) or _LATIN_RUN.search(data)) and (
        len(_BEYOND_ASCII.findall(data)) * 3 <= len(_LETTERS.findall(data))
    )


def refuse_binary(data: bytes, form: TextFormat, path: Path) -> None:
    """Raises ToolError when the bytes are no text in any encoding."""
    if not form.encoding.startswith(("utf-16", "utf-32")) and b"\0" in data[:8192]:
        raise ToolError(f"{path} is a binary file ({len(data):,} bytes), not text.")


def searchable(data: bytes) -> list[str] | None:
    """The lines of a file's bytes, what is no text in them shown as such; None for a binary file.

    UTF-32 counts as binary: ripgrep does not know it.
    """
    form = TextFormat.of(data)
    text = data[len(form.byte_order_mark) :].decode(form.encoding, "replace")
    return None if "\0" in text or form.encoding.startswith("utf-32") else lines_of(text)


def lines_of(text: str) -> list[str]:
    """Lines without their ends; a last line end opens no further line."""
    lines = text.replace("\r\n", "\n").split("\n")
    return lines[:-1] if lines[-1] == "" else lines


def line_ending(text: str) -> str:
    """Return the line end of most lines of a text."""
    count = text.count("\r\n")
    return "\r\n" if count > text.count("\n") - count else "\n"


def quote_lines(
    lines: Sequence[str],
    regions: Iterable[tuple[int, int]],
    *,
    around: int = 3,
    limit_bytes: int = QUOTE_BYTES,
) -> str:
    """Return numbered lines for a model: the regions (from 0 on, without their ends) and the lines
    `around` them. Long lines are cut, and the whole is too."""
    visible: dict[int, None] = {}
    for start, end in sorted(regions):
        visible |= dict.fromkeys(range(max(0, start - around), min(len(lines), end + around)))
    quoted: list[str] = []
    room = limit_bytes - len("… (999,999 more lines)")
    for count, n in enumerate(visible):
        line = lines[n]
        if len(line) > _QUOTED_CHARS:
            line = f"{line[:_QUOTED_CHARS]}… ({len(line):,} characters)"
        line = f"{n + 1}\t{line}"
        room -= len(line.encode("utf-8", "replace")) + 1
        if room < 0:
            return "\n".join([*quoted, f"… ({len(visible) - count:,} more lines)"])
        quoted.append(line)
    return "\n".join(quoted)


def diff(name: str, before: str, after: str) -> str:
    """A unified diff with 3 lines of context; empty when nothing differs."""
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
    """Whether a diff shows what differs, and not only that the texts are too large for it."""
    return not "".join(diff_text.split("\n", 3)[2:3]).startswith(_TOO_LARGE)


def _diff_lines(text: str) -> list[str]:
    lines = text.split("\n")
    # A changed line end is a change like any other, and must be seen.
    lines = [line[:-1] + "␍" if line.endswith("\r") else line for line in lines]
    if lines[-1] == "":
        return lines[:-1]
    lines[-1] += "\n\\ No newline at end of file"
    return lines
