"""Limits on unidiomatic phrases in docstrings and comments (CONTRIBUTING.md)."""

import re

import pytest

from tests.house.tree import docstrings, parse, python_files

# Phrases that native technical writers rarely use in code. Single uses may be right, so the test
# limits their rate; comparable projects have 0.5 to 1.5 in 1,000 words.
_UNIDIOMATIC = re.compile(
    r"\b(?:anew|beside|kept|stands?|stood|rests|holds?|spoken|mends?|mended|errands?)\b"
    r"|\b(?:is|are|was|were|be|been) told\b|\btold of\b|\bgo(?:es)? on\b|\bwhat becomes of\b"
    r"|\b(?:whoever|whatever|anybody|nobody|somebody|everybody)\b|\bby (?:it|them)sel(?:f|ves)\b"
    r"|\b(?:One|Those|That) (?:that|of|which|who)\b|\bso many\b",
)
# A docstring is a noun phrase or an imperative, not a noun clause.
_CLAUSE = re.compile(r"(?:What|Whether|Where|Who|Whose|How|When|Which|Whom)\b")
MAX_PER_1000_WORDS = 1.5
MAX_CLAUSES_PERCENT = 2.0


def rates(texts: list[str], comments: list[str]) -> tuple[float, float]:
    """Return unidiomatic phrases in 1,000 words, and the percentage of clause docstrings."""
    words = sum(len(text.split()) for text in texts + comments)
    phrases = sum(len(_UNIDIOMATIC.findall(text)) for text in texts + comments)
    clauses = sum(_CLAUSE.match(text) is not None for text in texts)
    return 1000 * phrases / max(words, 1), 100 * clauses / max(len(texts), 1)


@pytest.mark.parametrize("package", ["agent", "bench", "gateway", "kore", "tests"])
def test_docstrings_and_comments_are_idiomatic(package: str) -> None:
    texts, comments = [], []
    for path in python_files(package):
        texts += [str(node.value).strip() for node in docstrings(parse(path))]
        lines = map(str.strip, path.read_text("utf-8").splitlines())
        comments += [line for line in lines if line.startswith("#")]
    phrases, clauses = rates(texts, comments)
    assert phrases <= MAX_PER_1000_WORDS
    assert clauses <= MAX_CLAUSES_PERCENT


def test_unidiomatic_text_is_noticed() -> None:
    phrases, clauses = rates(["What a file holds.", "Return it."], ["# Nobody is told of it."])
    assert phrases > 100
    assert clauses == 50
