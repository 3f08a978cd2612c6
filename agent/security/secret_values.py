"""Detection of secrets: values that are declared as secrets and are not words.

The location of a value declares it: a key, token or password of the configuration, the password in
a URL, a variable or header with such a name. Elsewhere only long random values count. In doubt, a
value is not a secret: a name mistaken for a secret would be missing from every output and every
command.
"""

import os
import re
from collections.abc import Iterator, Mapping
from urllib.parse import unquote

_DECLARED_BITS = 30
_LOGIN_CHARS = 20
_TOKEN_CHARS = 24
_WORD_BITS = 4.0
_LETTER_BITS = 4.7
_DIGIT_BITS = 3.3
_SYMBOL_BITS = 4.0

_NAME = re.compile(
    r"(?:^|_)(?:token|secrets?|pass(?:word|wd|phrase|code)?s?|pwd|\w*password|authorization"
    r"|cookie|credentials?|(?:api|access|private|secret|auth|encryption|signing)_?keys?)_?\d*$",
    re.IGNORECASE,
)
_ID = re.compile(r"(?:^|_)(?:ids?|uuid|guid)$", re.IGNORECASE)
_TOKEN = re.compile(r"(?![/~.])[\w+/=.~-]+", re.ASCII)
_SEPARATOR = re.compile(r"[/=.~_-]")
_NO_HEX = re.compile(r"[g-z]", re.IGNORECASE)
_SCHEMES = re.compile(r"(?:bearer|basic|token)\s+", re.IGNORECASE)
# The login before the host of a URL, and the parameters after its question mark.
_LOGIN = re.compile(r"://([^/?#\s]*)@")
_QUERY = re.compile(r"[?&]([\w.-]+)=([^&#\s\"']+)")

_REPEATED = re.compile(r"(.)\1+")
_PIECE = re.compile(r"[^\W_]+")
_CHUNK = re.compile(r"[A-Z]?[a-z]+|[A-Z]+|\d+|[^\W\d_]+")
_SYMBOL = re.compile(r"[^\w\s.:/-]")
_LETTERS = re.compile(r"[a-z]{2,}")
_MIN_PAIRS = 9
# The 100 most frequent letter pairs in the words of this repository: 70 % of the pairs in words,
# but only 15 % of those in random texts.
_PAIRS = frozenset(
    re.findall(
        "..",
        "acadagaialamanaparasatcacechcoctdadedieaecedelemeneperesetexfigehahehoicieil"
        "iminioisitkelalelilllomameminancndnengnonsntodolomonoooporotoupapeplpoprrare"
        "rirorsrtsesispssstsutatethtitotrtsttunurusutvevi",
    )
)


def is_secret_value(value: str) -> bool:
    """Return whether a declared value is too random to be a word, a name or a placeholder."""
    return _randomness(value) >= _DECLARED_BITS


def is_token(value: str) -> bool:
    """Return whether a value is long and random enough to be a secret without a declaration.

    Hashes, alphabets and names made of many short parts are not secrets.
    """
    return _TOKEN.fullmatch(value) is not None and any(
        map(_is_random_piece, _SEPARATOR.split(value))
    )


def names_secret(name: str) -> bool:
    """Return whether a variable, header or parameter declares its value as a secret."""
    return _NAME.search(_snake(name)) is not None


def holds_secret(name: str, value: str) -> bool:
    """Return whether a variable, header or parameter is a secret by its name or by its value.

    An identifier is random but not a secret, and tools need it. Neither is the path of a file,
    which may contain a secret. Touches the disk.
    """
    is_declared = names_secret(name) or (is_token(value) and _ID.search(_snake(name)) is None)
    return is_declared and not _is_path(value)


def secrets_in_map(values: Mapping[str, str]) -> Iterator[str]:
    """Yield the secrets among environment variables or headers."""
    for name, value in values.items():
        bare = _SCHEMES.sub("", value, count=1)
        if holds_secret(name, bare):
            yield from (value, bare)
        yield from secrets_in_addresses(value)


def secrets_in_addresses(text: str) -> Iterator[str]:
    """Yield the secrets in the URLs of a text: passwords, login tokens and parameters."""
    if "://" not in text:
        return
    for login in _LOGIN.findall(text):
        name, _, password = login.partition(":")
        if password or _is_login_token(name):
            yield from {password or name, unquote(password or name)}
    for name, value in _QUERY.findall(text):
        if holds_secret(name, value):
            yield from {value, unquote(value)}


def _is_path(value: str) -> bool:
    """Return whether a value is a path in an existing folder other than the root."""
    folder = os.path.dirname(os.path.expanduser(value)) if value.startswith(("/", "~/")) else ""
    return folder not in ("", "/") and os.path.isdir(folder)


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|[-.]", "_", name)


def _is_login_token(name: str) -> bool:
    """Return whether the login of a URL without a password is a token and not a user name."""
    pieces = _SEPARATOR.split(name)
    return any(len(piece) >= _LOGIN_CHARS and is_secret_value(piece) for piece in pieces)


def _is_random_piece(piece: str) -> bool:
    """Return whether a piece is a long mix of digits and letters, not hexadecimal and not words."""
    if len(piece) < _TOKEN_CHARS or piece.isalpha():
        return False
    if len(_NO_HEX.findall(piece)) * 4 < len(piece):
        return False
    pairs = _letter_pairs(piece)
    if len(pairs) < _MIN_PAIRS:
        return len(_CHUNK.findall(piece)) * 3 > len(piece)
    return not _are_in_words(pairs)


def _randomness(value: str) -> float:
    """Estimate in bits how hard a value is to guess for an attacker who tries words first."""
    value = _REPEATED.sub(r"\1", value)
    is_text = _reads_as_text(value)
    pieces = sum(_piece_bits(piece, is_text=is_text) for piece in _PIECE.findall(value))
    return pieces + _SYMBOL_BITS * len(_SYMBOL.findall(value))


def _piece_bits(piece: str, *, is_text: bool) -> float:
    """Estimate the bits of digits and letters, as words, a word with a number, or random."""
    chunks = _CHUNK.findall(piece)
    has_digits = any(map(str.isdigit, chunks))
    is_mixed = len(chunks) > 2 if has_digits else len(piece) < 3 * len(chunks) > 3
    if is_mixed:
        return _LETTER_BITS * len(piece)
    word_bits = 0.0 if is_text else _LETTER_BITS
    return sum(
        _DIGIT_BITS * len(chunk) if chunk.isdigit() else max(_WORD_BITS, word_bits * len(chunk))
        for chunk in chunks
    )


def _reads_as_text(value: str) -> bool:
    """Return whether the pairs of neighbouring letters, if any, occur in words.

    True for a value with only a few pairs.
    """
    pairs = _letter_pairs(value)
    return len(pairs) < _MIN_PAIRS or _are_in_words(pairs)


def _letter_pairs(value: str) -> list[str]:
    runs = _LETTERS.findall(value.lower())
    return [run[n : n + 2] for run in runs for n in range(len(run) - 1)]


def _are_in_words(pairs: list[str]) -> bool:
    return sum(map(_PAIRS.__contains__, pairs)) * 3 > len(pairs)
