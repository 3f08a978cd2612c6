"""Almost valid input: examples that are cut, joined, repeated and mixed with unusual pieces.

A seeded `random.Random` generates a thousand inputs a second, where hypothesis generates a hundred.
"""

from collections.abc import Callable, Sequence
from random import Random
from typing import Any, TypeVar

Piece = TypeVar("Piece", str, bytes)
Make = Callable[[Random], Any]

ODD = (
    *("", " ", "\n", "\t", "\0", "\r\n", "\x1b", "\x7f", "\u202e", "\u200b", "\ufeff", "\ud800"),
    *("．", "é", "e\u0301", "🙂", "\u2028", "\U0010ffff", "%00", "../", "~", "$", "'", '"', "\\"),
    *("x" * 300, "(" * 60, "[" * 60, "{" * 60, "-1", "0", "1e999", "9" * 30, "NaN", "null", "ß"),
)
_NUMBERS = (0, 1, -1, 0.5, 1e308, 2**31, 2**63, 2**64, -(2**63), 10**400)
_RANGES = ((32, 127), (32, 127), (0, 32), (0x80, 0x250), (0x300, 0x370), (0x2000, 0x2070),
           (0x4E00, 0x4F00), (0xD800, 0xE000), (0xFF00, 0xFFFF), (0x1F300, 0x1F700))  # fmt: skip


def mutate(random: Random, examples: Sequence[Piece], pieces: Sequence[Piece]) -> Piece:
    """Return an example with a few cuts, each filled with a piece, a repetition or nothing."""
    text = random.choice(examples)
    for _ in range(random.randrange(7)):
        start = random.randrange(len(text) + 1)
        end = min(len(text), start + random.choice((0, 0, 1, 2, 5, 40, 400)))
        filling = random.choice(pieces) if random.random() < 0.8 else text[start:end] * 2
        text = text[:start] + filling + text[end:]
    return text


def texts(examples: Sequence[str], pieces: Sequence[str]) -> Make:
    """Return a generator: mostly mutated examples, also pieces in any order and arbitrary text."""
    every = (*pieces, *ODD)

    def make(random: Random) -> str:
        share = random.random()
        if share < 0.6:
            return mutate(random, examples, every)
        if share < 0.95:
            return "".join(random.choices(every, k=random.randrange(30)))
        return any_text(random)

    return make


def flip_bytes(examples: Sequence[bytes]) -> Make:
    """Return a generator of examples with bytes changed, removed and inserted."""
    pieces = (*(bytes([n]) for n in range(256)), b"\0" * 4, b"\xff" * 8, b"\xff" * 2, b"PK")

    def make(random: Random) -> bytes:
        if random.random() < 0.02:
            return random.randbytes(random.randrange(600))
        data = bytearray(mutate(random, examples, pieces))
        for _ in range(random.choice((0, 0, 1, 1, 2, 8)) if data else 0):
            data[random.randrange(len(data))] = random.randrange(256)
        return bytes(data)

    return make


def trees(examples: Sequence[Any]) -> Make:
    """Return a generator of JSON values like the examples, with some parts replaced at random."""
    return lambda random: _alter(random, random.choice(examples))


def any_text(random: Random) -> str:
    """Return text of all alphabets, including lone surrogates."""
    low, high = random.choice(_RANGES)
    if random.random() < 0.3:
        return random.choice(ODD)
    return "".join(chr(random.randrange(low, high)) for _ in range(random.randrange(20)))


def any_json(random: Random, depth: int = 3) -> Any:
    """Return any JSON value."""
    match random.randrange(7 if depth else 5):
        case 0:
            return random.choice((None, True, False))
        case 1:
            return random.choice(_NUMBERS)
        case 2:
            return random.randrange(-1000, 1000)
        case 3 | 4:
            return any_text(random)
        case 5:
            return [any_json(random, depth - 1) for _ in range(random.randrange(4))]
    return {any_text(random): any_json(random, depth - 1) for _ in range(random.randrange(4))}


def _alter(random: Random, value: Any) -> Any:
    choice = random.randrange(60)
    if choice == 0:
        return any_json(random)
    if isinstance(value, dict):
        result = {key: _alter(random, outcome) for key, outcome in value.items()}
        if choice < 6 and result:
            result.pop(random.choice(list(result)))
        elif choice < 10:
            result[any_text(random)] = any_json(random)
        return result
    if isinstance(value, list):
        altered = [_alter(random, item) for item in value]
        return altered * 2 if choice == 1 else altered
    if isinstance(value, str) and choice < 12:
        return any_text(random) if choice < 6 else mutate(random, (value,), ODD)
    if isinstance(value, int) and choice < 12:
        return random.choice(_NUMBERS)
    return value
