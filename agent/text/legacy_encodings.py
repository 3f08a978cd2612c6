"""Detection of encodings older than UTF-8, strict enough for safe edits."""

import codecs
import re
import unicodedata
from contextlib import suppress

# Detection is statistical, so short or unusual texts may mislead it.
_EAST_ASIAN = frozenset(
    {"gb18030", "big5", "big5hkscs", "cp932", "shift_jis", "euc_jp", "cp949", "euc_kr"}
)
_ENCODINGS = frozenset(
    _EAST_ASIAN
    | {f"cp125{n}" for n in range(9)}
    | {"koi8-r", "koi8-u", "cp866", "cp874", "iso8859-2", "iso8859-5", "iso8859-7", "iso8859-9"}
    | {"iso8859-15"}
)
_LINE_BEYOND_ASCII = re.compile(rb"[^\n]*[\x80-\xff][^\n]*\n?")
_BEYOND_ASCII = re.compile(rb"[\x80-\xff]")
_SHELL_SIGNS = frozenset(b"`|\\")
_MIN_BYTES = 7
_MAX_SAMPLE_BYTES = 20_000
# The best reading must be this many times as likely as the next one.
_MARGIN = 1.5
# Non-ASCII symbols, except dashes, quotes and hyphens, with letters on both sides.
_SIGN_IN_WORD = re.compile(
    r"[^\W\d_][^\w\s\x00-\x7f\xad\xb7\u2010-\u2015\u2018\u2019\u3000-\u303f\uff00-\uff0f][^\W\d_]"
)
_WORD = re.compile(r"[^\W\d_]+")
# Scripts by the first word of a letter's name in Unicode; other letters fit any script.
_SCRIPTS = {
    **{name: name for name in ("LATIN", "GREEK", "CYRILLIC", "HEBREW", "ARABIC", "THAI", "HANGUL")},
    **dict.fromkeys(("CJK", "HIRAGANA", "KATAKANA", "BOPOMOFO"), "EAST ASIAN"),
}
_ALLOWED_CONTROLS = frozenset("\t\n\r\f\x1a\x1b")


def detect_encoding(data: bytes) -> str | None:
    """Return Python's name of the encoding of bytes that are not UTF-8, or None if in doubt.

    The bytes decode strictly, encode to the same bytes again, and yield words that each use a
    single script.
    """
    sample = b"".join(_LINE_BEYOND_ASCII.findall(data))[:_MAX_SAMPLE_BYTES]
    if len(_BEYOND_ASCII.findall(sample)) < _MIN_BYTES or _is_damaged_utf_8(sample):
        return None
    import chardet

    readings: dict[str, tuple[str, float]] = {}
    for guess in chardet.detect_all(sample):
        encoding = _codec(guess["encoding"])
        if encoding in _ENCODINGS and (text := _plausible_text(data, encoding)) is not None:
            readings.setdefault(text, (encoding, guess["confidence"]))
    # All bytes can be read as single-byte letters, but few as pairs.
    if not any(encoding in _EAST_ASIAN for encoding, _ in readings.values()) and any(
        _plausible_text(data, encoding) is not None for encoding in _EAST_ASIAN
    ):
        return None
    match sorted(readings.values(), key=lambda reading: -reading[1]):
        case [(encoding, _)]:
            return encoding
        case [(encoding, first), (_, second), *_] if second * _MARGIN < first:
            return encoding
    return None


def ambiguous_lines(text: str, encoding: str) -> frozenset[str]:
    """Return the lines with a character whose bytes include one that is special to a shell.

    For example, the second byte of a Chinese or Japanese character may be a backtick, but a
    question shows the character.
    """
    if encoding not in _EAST_ASIAN:
        return frozenset()
    signs = {char for char in set(text) if not char.isascii() and _has_sign(char, encoding)}
    return frozenset(line for line in text.split("\n") if not signs.isdisjoint(line))


def _has_sign(char: str, encoding: str) -> bool:
    try:
        return not _SHELL_SIGNS.isdisjoint(char.encode(encoding))
    except UnicodeEncodeError:
        return False


def _is_damaged_utf_8(sample: bytes) -> bool:
    """Return whether more characters beyond ASCII are UTF-8 than are not."""
    text = sample.decode("utf-8", "replace")
    return sum(not char.isascii() for char in text) > 2 * text.count("\ufffd")


def _codec(name: str | None) -> str:
    with suppress(LookupError):
        return codecs.lookup(name or "").name
    return ""


def _plausible_text(data: bytes, encoding: str) -> str | None:
    """Return the text, or None if it is implausible."""
    try:
        text = data.decode(encoding)
        if text.encode(encoding) != data:
            return None
    except UnicodeError:
        return None
    beyond_ascii = {char for char in set(text) if not char.isascii()}
    categories = {unicodedata.category(char) for char in beyond_ascii}
    controls = {char for char in set(text) if unicodedata.category(char) == "Cc"}
    if categories & {"Cn", "Co", "Cs"} or controls - _ALLOWED_CONTROLS:
        return None
    words = (word for word in _WORD.findall(text) if not word.isascii())
    return text if not _SIGN_IN_WORD.search(text) and all(map(_has_one_script, words)) else None


def _has_one_script(word: str) -> bool:
    scripts = {_SCRIPTS.get(unicodedata.name(char, "").partition(" ")[0]) for char in word} - {None}
    # East Asian words are adjacent to Latin words without a space.
    if scripts & {"EAST ASIAN", "HANGUL"}:
        scripts.discard("LATIN")
    return len(scripts) <= 1
