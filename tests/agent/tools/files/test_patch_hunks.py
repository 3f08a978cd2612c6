"""Placement of hunks: exactly one place, or an error that lists the candidates."""

import difflib
import itertools
import random
import re
from collections.abc import Iterator, Sequence

import pytest

from agent.errors import ToolError
from agent.tools.files.patch_format import apply_hunks, parse_patch

TWICE = "a = 1\nx = 1\nb = 2\nx = 1\nc = 3\nx = 1\nd = 4\n"


def patched(text: str, *lines: str) -> str:
    whole = "\n".join(["*** Begin Patch", "*** Update File: f", *lines, "*** End Patch"])
    (patch,) = parse_patch(whole)
    return apply_hunks(text, patch.hunks, "f").text


@pytest.mark.parametrize(
    ("text", "lines", "words"),
    [
        (TWICE, ["@@", "-x = 1", "+x = 9"], r"fits 3 places.*\n2\tx = 1\n4\tx = 1\n6\tx = 1"),
        (f"z\ny\n{TWICE}", ["@@ z", "-x = 1", "+x = 9"], r"fits 3 places.*\n4\tx = 1\n6\tx"),
        (TWICE, ["@@ b = 3", "-c = 3", "+c = 9"], r"'@@ b = 3'.* not found.*\n3\tb = 2"),
        (TWICE, ["@@ x = 1", "+y = 1"], r"fits 3 places.*\n2\tx = 1\n4\tx = 1\n6\tx = 1"),
        (TWICE, ["@@ c = 3", "@@ b = 2", "-x = 1", "+x"], r"'@@ b = 2'.* not found"),
        (TWICE, ["@@", "+y = 1"], r"only adds lines"),
        (TWICE, ["@@ -5,2 +5,3 @@", "+y = 1"], r"only adds lines"),
        (TWICE, ["@@ -90,0 +91 @@", "+y = 1"], r"only adds lines"),
        (TWICE, ["@@ b = 2"], r"'@@ b = 2' is followed by no lines"),
        (TWICE, ["@@ -3 +3 @@", "-x = 1", "+x = 9"], r"fits 2 places.*\n2\tx = 1\n4\tx = 1"),
        (TWICE, ["@@", "-a = 1", "+a = 9", "*** End of File"], r"end of .*\n7\td = 4"),
        (TWICE, ["@@", "-b = 2", "@@", "-b = 2"], r"[Hh]unks 1 and 2.*line 3"),
        (TWICE, ["@@", "-b = 2", "@@", " b = 2", "+e", " x = 1"], r"[Hh]unks 1 and 2.*line 3"),
        (TWICE, ["@@ c = 3", "+y", "@@ c = 3", "+z"], r"[Hh]unks 1 and 2"),
    ],
)
def test_ambiguous_place_is_an_error_that_lists_lines(
    text: str, lines: list[str], words: str
) -> None:
    with pytest.raises(ToolError) as error:
        patched(text, *lines)
    assert re.search(words, str(error.value), re.DOTALL), str(error.value)


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (["@@ -4 +4 @@", "-x = 1", "+x = 9"], [4]),
        (["@@ -3,3 +3,3 @@ def unknown():", " b = 2", "-x = 1", "+x = 9"], [4]),
        (["@@ -70,1 +70,1 @@", "-x = 1", "+x = 9"], [6]),
        (["@@ a = 1", " a = 1", "-x = 1", "+x = 9"], [2]),
        (["@@ c = 3", "-x = 1", "+x = 9"], [6]),
        (["@@", "-x = 1", "+x = 9", " c = 3", "@@", "-x = 1", "+x = 9", " b = 2"], [2, 4]),
    ],
)
def test_hint_anchor_or_context_selects_the_place(lines: list[str], expected: list[int]) -> None:
    changed = TWICE.splitlines()
    for number in expected:
        changed[number - 1] = "x = 9"
    assert patched(TWICE, *lines).splitlines() == changed


def test_match_directly_below_its_anchor_wins() -> None:
    text = "## First\nold\n## Second\nold\n"
    assert patched(text, "@@ ## First", "-old", "+new") == "## First\nnew\n## Second\nold\n"


def test_anchor_covers_its_indented_block() -> None:
    text = "class A:\n    def f(self):\n        pass\n\nclass B:\n    def f(self):\n        pass\n"
    changed = patched(text, "@@ class A:", "-        pass", "+        return 1")
    assert changed == text.replace("pass", "return 1", 1)
    changed = patched(text, "@@ class B:", "@@ def f(self):", "+        # new")
    assert changed == text[: -len("        pass\n")] + "        # new\n        pass\n"


def test_additions_are_inserted_at_their_place() -> None:
    assert patched("a\nb\n", "@@ a", "+x") == "a\nx\nb\n"
    assert patched("a\nb\n", "@@ -1,0 +2 @@", "+x") == "a\nx\nb\n"
    assert patched("a\nb\n", "@@ -0,0 +1,1 @@", "+x") == "x\na\nb\n"
    assert patched("a\nb\n", "@@", "+x", "*** End of File") == "a\nb\nx\n"
    assert patched("a\nb\n", "@@ a", "+x", "*** End of File") == "a\nb\nx\n"
    assert patched("", "@@", "+x") == "x\n"


def test_end_of_file_marker_selects_the_last_place() -> None:
    assert patched("a\nb\na\n", "@@", "-a", "+c", "*** End of File") == "a\nb\nc\n"
    assert patched("a\nb\na", "@@", "-a", "+c", "*** End of File") == "a\nb\nc"


def test_last_line_without_newline_matches() -> None:
    with pytest.raises(ToolError, match="fits 2 places"):
        patched("a\nb\na", "@@", "-a", "+c")


def test_empty_line_between_hunks_only_separates_them() -> None:
    assert patched("a\nb\n", "@@", "-a", "+A", "", "@@", "-b", "+B", "") == "A\nB\n"
    assert patched("a\n\nb\n", "@@", "-a", "+A", "", "@@", "-b", "+B") == "A\n\nB\n"


def test_context_lines_keep_their_own_text() -> None:
    """The patch has no trailing whitespace, and the file has mixed line endings."""
    text = "one  \r\ntwo\r\n\u201cthree\u201d\t\nfour\n"
    changed = patched(text, "@@", " one", "-two", "+2", ' "three"', "+3", " four")
    assert changed == "one  \r\n2\r\n\u201cthree\u201d\t\n3\nfour\n"


def test_hunks_in_any_order_are_applied() -> None:
    text = "".join(f"def f{n}():\n    return {n}\n\n\n" for n in range(4))
    hunks = [
        ["@@", " def f3():", "-    return 3", "+    return 33"],
        ["@@", " def f1():", "-    return 1", "+    return 11"],
    ]
    expected = text.replace("return 3", "return 33").replace("return 1", "return 11")
    assert patched(text, *hunks[0], *hunks[1]) == expected
    assert patched(text, *hunks[1], *hunks[0]) == expected


def _hunks(old: Sequence[str], new: Sequence[str], context: int) -> Iterator[list[str]]:
    """Yield the hunks of `difflib`, without the two header lines."""
    diff = list(difflib.unified_diff(old, new, n=context, lineterm=""))[2:]
    starts = [n for n, line in enumerate(diff) if line.startswith("@@ ")]
    for start, end in itertools.pairwise([*starts, len(diff)]):
        yield diff[start:end]


@pytest.mark.parametrize("seed", range(60))
def test_difflib_patches_give_the_target_or_an_error(seed: int) -> None:
    """Most hunks fit several places, because the files have few distinct lines.

    Hunks are in any order, with or without line numbers.
    """
    chance = random.Random(seed)
    outcomes = {"applied": 0, "refused": 0}
    for _ in range(25):
        pool = [chance.choice(["", "  ", "\t"]) + chance.choice("abcdef") for _ in range(6)]
        old = chance.choices([*pool, "", "}"], k=chance.randint(0, 30))
        new = list(old)
        for _ in range(chance.randint(1, 4)):
            start = chance.randint(0, len(new))
            new[start : start + chance.randint(0, 3)] = chance.choices(
                [*pool, "new"], k=chance.randint(0, 3)
            )
        hunks = list(_hunks(old, new, chance.randint(0, 3)))
        if not hunks:
            continue
        numbered = chance.random() < 0.5
        if chance.random() < 0.5:
            chance.shuffle(hunks)
        ending = chance.choice(["\n", "\r\n"]) if len(old) > 1 else "\n"
        last = not old or old[-1] == "" or chance.random() < 0.5
        texts = [_text(lines, ending, last) for lines in (old, new)]
        lines = [line for head, *body in hunks for line in (head if numbered else "@@", *body)]
        try:
            result = patched(texts[0], *lines)
        except ToolError:
            assert not numbered, "correct line numbers identify a single place"
            outcomes["refused"] += 1
            continue
        outcomes["applied"] += 1
        # The format does not record whether the last line ends with a line break.
        assert result.removesuffix(ending) == texts[1].removesuffix(ending), lines
    assert outcomes["applied"] > 5


def _text(lines: Sequence[str], ending: str, is_last_finished: bool) -> str:
    text = ending.join(lines)
    return text + ending if lines and is_last_finished else text
