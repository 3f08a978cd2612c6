"""BM25 ranking of texts for a query.

Terms are stems, or pairs of characters in scripts without spaces between words.
"""

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from functools import cache
from typing import TypeVar

from agent.prompts import load_prompt

T = TypeVar("T")
# Thai to Khmer, kana, Han, Hangul.
_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff"
    "\uac00-\ud7af\uf900-\ufaff"
)
_STOP_RUNS = re.compile(
    "什么时候|为什么|是什么|什么|哪里|哪个|哪儿|怎么|怎样|多少|谁|的|了|吗|呢|吧|是|我|你|他|她"
)
_ENDINGS = re.compile(r"(?<=[^\W_]{3})(?:ingly|edly|ings|ing|ied|ies|ed|es|ly|s|e|y)\Z")
_K1, _B = 1.2, 0.75
# Cormack et al., "Reciprocal rank fusion", 2009.
_RANK_OFFSET = 60
# Shorter words are prefixes of too many others.
_MIN_STEM_CHARS = 4
# As a share of the best score; texts below it are noise.
NOISE_SHARE = 0.4
# Maximum number of texts chosen only for their similarity: even nonsense has nearest texts.
MAX_SIMILAR = 5


def plain(text: str) -> str:
    """Return the text without case and accents, which people use inconsistently."""
    decomposed = unicodedata.normalize("NFKD", text.casefold())
    return unicodedata.normalize(
        "NFC", "".join(char for char in decomposed if not unicodedata.combining(char))
    )


def query_terms(query: str) -> list[str]:
    """Return the distinct terms of a query, without stop words unless all are stop words."""
    text = plain(query)
    terms = [term for run in _runs(_STOP_RUNS.sub(" ", text)) for term in _terms(run)]
    useful = [term for term in terms if term not in _stop_words()]
    return list(dict.fromkeys(useful or [t for run in _runs(text) for t in _terms(run)]))


def scores(terms: Sequence[str], texts: Sequence[str]) -> list[float]:
    """Return the score of each text: 0 for a text without any of the terms."""
    counts = [_text_terms(text) for text in texts]
    mean = sum(map(Counter.total, counts)) / max(1, len(counts)) or 1.0
    result = [0.0] * len(texts)
    for term in terms:
        frequency = sum(term in count for count in counts)
        weight = math.log(1 + (len(texts) - frequency + 0.5) / (frequency + 0.5))
        for n, count in enumerate(counts):
            if times := count[term]:
                length = 1 - _B + _B * count.total() / mean
                result[n] += weight * times * (_K1 + 1) / (times + _K1 * length)
    return result


def count_shared_prefixes(terms: Sequence[str], text: str) -> int:
    """Count the terms that occur in the text or share a beginning with one of its words.

    For example "allergies" and "allergic", or "novelist" and "novels".
    """
    plain_text = plain(text)
    stems = [stem(run) for run in _runs(plain_text) if not _is_unspaced(run)]
    stems = [
        word_stem
        for word_stem in stems
        if len(word_stem) >= _MIN_STEM_CHARS and word_stem not in _stop_words()
    ]
    return sum(term in plain_text or term.startswith(tuple(stems)) for term in terms)


def fused(*rankings: Sequence[T]) -> list[T]:
    """Fuse rankings by reciprocal rank."""
    weights: dict[T, float] = {}
    for ranking in rankings:
        for place, item in enumerate(ranking, 1):
            weights[item] = weights.get(item, 0.0) + 1 / (_RANK_OFFSET + place)
    return sorted(weights, key=lambda item: -weights[item])


def most_alike(cosines: Sequence[float], limit: int) -> list[int]:
    """Return the indexes of the most similar texts, best first."""
    places = sorted(range(len(cosines)), key=lambda n: -cosines[n])[:limit]
    return [n for n in places if cosines[n] > 0]


def _text_terms(text: str) -> Counter[str]:
    counts: Counter[str] = Counter()
    for run in _runs(plain(text)):
        terms = _terms(run)
        counts.update(terms)
        if _is_unspaced(run) and len(run) > 1:
            # A query may be a single character; it does not count towards the text's length.
            counts.update(dict.fromkeys(set(run) - set(terms), 1))
    return counts


def _terms(run: str) -> list[str]:
    if not _is_unspaced(run):
        return [run if run in _stop_words() else stem(run)]
    return [run[n : n + 2] for n in range(len(run) - 1)] or [run]


def _runs(text: str) -> list[str]:
    return _run_pattern().findall(text)


@cache
def _run_pattern() -> re.Pattern[str]:
    """Compile the pattern on first use: it takes 6 ms."""
    return re.compile(f"[{_UNSPACED}]+|[^\\W{_UNSPACED}]+")


@cache
def _stop_words() -> frozenset[str]:
    return frozenset(load_prompt("stop_words").split())


def _is_unspaced(run: str) -> bool:
    return re.match(f"[{_UNSPACED}]", run) is not None


def stem(word: str) -> str:
    """Return the stem of an English word: the same for "plan", "plans" and "planning"."""
    if not word.isascii() or not word.isalpha():
        return word
    short = _ENDINGS.sub("", word)
    short = _ENDINGS.sub("", short) if short != word else short
    doubled = len(short) > 3 and short[-1] == short[-2] and short[-1] not in "lsz"
    return short[:-1] if doubled else short
