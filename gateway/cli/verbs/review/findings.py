"""Findings of a review: their schema, and their presentation as text and as comments."""

import re
import textwrap
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, get_args

from agent.i18n import mark_for_translation, plural, t
from agent.records import frozen
from agent.text.visible import escape_invisible, escape_line
from gateway.cli.verbs.review.changes import Changes

Severity = Literal["critical", "high", "medium", "low"]
SEVERITIES: tuple[Severity, ...] = get_args(Severity)
# All of them fit into the 65,536 characters of a comment.
_MAX_FINDINGS = 20
_MAX_EXPLANATION_CHARS = 2_000
_MAX_LINE_CHARS = 300
_MAX_SHOWN_PATHS = 10
_COLUMNS = 88
_BACKTICKS = re.compile("`+")

SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "required": ["findings", "summary"],
    "properties": {
        "findings": {
            "type": "array",
            "maxItems": _MAX_FINDINGS,
            "items": {
                "type": "object",
                "required": ["file", "line", "severity", "title", "explanation"],
                "properties": {
                    "file": {"type": "string", "maxLength": _MAX_LINE_CHARS},
                    "line": {"type": ["integer", "null"], "minimum": 1},
                    "severity": {"enum": list(SEVERITIES)},
                    "title": {"type": "string", "maxLength": _MAX_LINE_CHARS},
                    "explanation": {"type": "string", "maxLength": _MAX_EXPLANATION_CHARS},
                },
            },
        },
        "summary": {"type": "string", "maxLength": _MAX_EXPLANATION_CHARS},
    },
}

# Names of the severities, for the translation catalogues.
NAMES = (
    mark_for_translation("critical"),
    mark_for_translation("high"),
    mark_for_translation("medium"),
    mark_for_translation("low"),
)


@frozen
class ReviewFinding:
    """Finding of a review; `line` is a line of the file after the changes, None without one."""

    file: str
    line: int | None
    severity: Severity
    title: str
    explanation: str

    @property
    def heading(self) -> str:
        """Place, severity and title in one line without control characters."""
        place = self.file if self.line is None else f"{self.file}:{self.line}"
        return escape_line(f"{place}: {t(self.severity)}: {' '.join(self.title.split())}")


@frozen
class Review:
    """Findings, most serious first, and a summary of the changes."""

    findings: tuple[ReviewFinding, ...]
    summary: str

    @classmethod
    def of_output(cls, output: Mapping[str, Any], clean: Callable[[str], str]) -> "Review":
        """Parse an answer that matches `SCHEMA`; `clean` removes secrets."""
        findings = [
            ReviewFinding(
                clean(item["file"]).removeprefix("./"),
                item["line"],
                item["severity"],
                clean(item["title"]),
                clean(item["explanation"]),
            )
            for item in output["findings"]
        ]
        findings.sort(key=lambda finding: SEVERITIES.index(finding.severity))
        return cls(tuple(findings), clean(output["summary"]))


def text_of(review: Review, changes: Changes) -> str:
    """Return the review for a terminal or a log."""
    parts = [
        f"{finding.heading}\n{textwrap.indent(_visible(finding.explanation), '    ')}"
        for finding in review.findings
    ]
    parts += [_visible(part) for part in (review.summary, omission(changes)) if part]
    return "\n\n".join([count_of(review), *parts])


def count_of(review: Review) -> str:
    return plural(len(review.findings), "{n} finding", "{n} findings")


def omission(changes: Changes) -> str:
    """Return a sentence about changed files that were not reviewed, or ''."""
    count = len(changes.left_out)
    if not count:
        return ""
    names = ", ".join(map(escape_line, changes.left_out[:_MAX_SHOWN_PATHS]))
    return plural(
        count,
        "The diff is too long: {n} changed file was not reviewed: {names}",
        "The diff is too long: {n} changed files were not reviewed: {names}",
        names=names if count <= _MAX_SHOWN_PATHS else f"{names}, …",
    )


def comment_of(finding: ReviewFinding) -> str:
    """Return the comment on a line."""
    words = f"{t(finding.severity)}: {finding.title}\n\n{finding.explanation}"
    return inert_block(words)


def summary_of(
    review: Review, others: Sequence[ReviewFinding], changes: Changes, marker: str
) -> str:
    """Return the comment on all changes, with the findings that have no separate comment."""
    assert changes.head is not None, "only commits are commented on"
    head = t("Kore reviewed {commit}: {count}", commit=changes.head[:12], count=count_of(review))
    parts = [review.summary, omission(changes)]
    parts += [f"{finding.heading}\n{finding.explanation}" for finding in others]
    return "\n\n".join([head, inert_block("\n\n".join(filter(None, parts))), marker])


def inert_block(text: str) -> str:
    """Return the text as a Markdown code block.

    In it, links, pictures, mentions and commands have no effect. Lines are indented, because some
    programs treat any comment line that begins with a slash as a command.
    """
    lines = [
        f"  {wrapped}"
        for line in _visible(text).splitlines()
        for wrapped in textwrap.wrap(line, _COLUMNS, break_on_hyphens=False) or [""]
    ]
    longest = max(map(len, _BACKTICKS.findall(text)), default=0)
    fence = "`" * max(3, longest + 1)
    return "\n".join([f"{fence}text", *lines, fence])


def _visible(text: str) -> str:
    return escape_invisible(text.strip())
