"""Patterns mean the same with and without ripgrep."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from agent.tools.files import regex_charset
from agent.tools.files.regex_members import BadPattern
from agent.tools.files.regex_pattern import translated

RIPGREP = shutil.which("rg")
LINES = [
    "foo bar", "Foo_Bar 12", "", "  indented\t", "straße STRASSE ẞ", "Ünïcode é e\u0301", "ſ K Å",
    "١٢٣ digits x² Ⅷ Ⓐ", "\u00a0nbsp\u2003em", "日本語 漢字 ー", "a\u2028b", "tab\tx",
    "(paren) [brack] {br}", "\\back", "$dollar ^caret", "a\x0bb\x0cc\x85d", "x\u200dy 👩‍🍳", "--",
    "ǅ ǆ Ǆ", "İ", "ı", "i", "I", "a.b*c+d?", "e\x1cf", "σ ς Σ", "µ μ", "aab AAB", "\u202ftürkçe",
]  # fmt: skip
# Pieces that mean something, alone or together; some are refused by both. Not among them are \A
# and \z, which ripgrep looks for in more than the line.
PIECES = [
    "a", "b", "o", "foo", "é", "ß", "i", "K", "s", "ǆ", "σ", "日", " ", "#", "-", "&&", "~~", ".",
    r"\w", r"\W", r"\d", r"\D", r"\s", r"\S", r"\b", "^", "$", r"\Z", r"\Q", r"\G",
    "[a-c]", "[^a-c]", "[]a]", "[^]a]", "[a-]", "[-a]", r"[\]]", r"[\w-]", "[a[b-c]]",
    "[a-z&&[^b]]",
    r"[\w--\d]", "[a-c~~b-d]", "[[:alpha:]]", "[[:^digit:]]", "[[:nope:]]", r"[^\W_]", r"[\d-z]",
    "[é-ü]", "[z-a]", "[", "[a", r"[\b]", r"\p{L}", r"\pL", r"\P{Lu}", r"\p{^Nd}", r"[\p{Ll}]",
    r"\p{Letter}", r"\pM", r"\x41", r"\x{e9}", r"\u0041", r"\u{41}", r"\U00000041", r"\x4", r"\cA",
    r"\t", r"\v", r"\f", r"\.", r"\-", r"\é", r"\1", r"\0", "a{2}", "a{1,2}", "a{2,1}", "a{2,}",
    "a{,2}", "a{", "{", "}", "*", "+", "?", "a*", "a+?", "a*+", "a**", "(?:a|b)", "(a)", "(|a)",
    "()", "|", "(a", ")", "(?P<n>a)", "(?P=n)", "(?=a)", "(?<!a)", "(?>a)", "(?#c)", "(?i)",
    "(?i:f)", "(?-i:f)", "(?-i)", "(?s).", "(?m)^", "(?x)", "(?U)a+", "(?a)", "(?L)", "(?)", "\\",
]  # fmt: skip


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("pattern") / "f.txt"
    path.write_text("\n".join(LINES) + "\n", newline="")
    return path


def by_ripgrep(pattern: str, file: Path, *, ignore_case: bool) -> set[str] | None:
    assert RIPGREP is not None
    case = "--ignore-case" if ignore_case else "--case-sensitive"
    done = subprocess.run(
        [RIPGREP, "--no-config", "--json", "--crlf", case, f"--regexp={pattern}", "--", str(file)],
        capture_output=True,
        check=False,
    )
    if done.returncode not in (0, 1):
        return None
    records = [json.loads(line) for line in done.stdout.splitlines()]
    matches = (record["data"]["lines"] for record in records if record["type"] == "match")
    return {lines["text"].removesuffix("\n") for lines in matches}


def by_ourselves(pattern: str, *, ignore_case: bool) -> set[str]:
    narrow, wide = (
        re.compile(translated(pattern, ignore_case=ignore_case, narrow=each))
        for each in (True, False)
    )
    for line in filter(str.isascii, LINES):
        assert bool(narrow.search(line)) == bool(wide.search(line))
    return {line for line in LINES if wide.search(line)}


@pytest.mark.skipif(RIPGREP is None, reason="ripgrep is not installed")
@settings(max_examples=120, deadline=None)
@given(st.lists(st.sampled_from(PIECES), min_size=1, max_size=4).map("".join), st.booleans())
def test_what_ripgrep_finds_is_found(file: Path, pattern: str, ignore_case: bool) -> None:
    # An end before a beginning: ripgrep passes over the empty lines that it means.
    assume(not re.search(r"\$.*\^", pattern))
    expected = by_ripgrep(pattern, file, ignore_case=ignore_case)
    if expected is None:
        # Newer versions of ripgrep allow more, and so may we; but it fails in no other way.
        try:
            by_ourselves(pattern, ignore_case=ignore_case)
        except BadPattern:
            return
    else:
        assert by_ourselves(pattern, ignore_case=ignore_case) == expected


@pytest.mark.parametrize(
    ("pattern", "told"),
    [
        ("interface{}", r"escaped"),
        ("(?=a)", "look-around"),
        (r"(a)\1", "back-references"),
        (r"a\Z", r"\\Z"),
        ("[a", "unclosed character class"),
        ("(a", "unclosed group"),
        ("a)", "unopened group"),
        ("[z-a]", "range"),
        ("+", "repetition"),
        ("(?i)*", "repetition"),
        (r"\p{Greek}", "Greek"),
        (r"\x{110000}", "hexadecimal"),
        ("(?P<a>x)(?P<a>y)", "duplicate"),
        ("(" * 200, "too deep"),
        ("[" * 200, "too deep"),
    ],
)
def test_what_cannot_be_searched_says_why(pattern: str, told: str) -> None:
    with pytest.raises(BadPattern, match=told):
        translated(pattern, ignore_case=False, narrow=True)


@pytest.mark.parametrize(
    ("pattern", "line", "fits"),
    [
        (r"interface\{\}", "interface{}", True),
        (r"\"a\/b\"", '"a/b"', True),
        ("x(?i)a|b", "B", True),
        ("(x(?i)a)|b", "B", False),
        ("(?x) a b # c", "ab", True),
        (r"\<foo\>", "a foo b", True),
        (r"\<oo", "a foo b", False),
        ("(?<n>a)", "a", True),
    ],
)
def test_what_newer_versions_of_ripgrep_know_is_known(pattern: str, line: str, fits: bool) -> None:
    assert bool(re.search(translated(pattern, ignore_case=False, narrow=True), line)) == fits


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(0, 9)), max_size=6), st.data())
def test_sets_of_characters_are_sets(pairs: list[tuple[int, int]], data: st.DataObject) -> None:
    def points(ranges: regex_charset.Ranges) -> set[int]:
        return {point for low, high in ranges for point in range(low, high + 1)}

    cut = data.draw(st.integers(0, len(pairs)))
    one, other = (
        regex_charset.union(*(((low, low + more),) for low, more in part))
        for part in (pairs[:cut], pairs[cut:])
    )
    assert points(regex_charset.union(one, other)) == points(one) | points(other)
    assert points(regex_charset.minus(one, other)) == points(one) - points(other)
    assert points(regex_charset.common(one, other)) == points(one) & points(other)
    assert regex_charset.negated(regex_charset.negated(one)) == one
