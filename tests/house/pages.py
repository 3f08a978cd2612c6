"""Parser for the documentation pages: blocks of code, sections, tables, links."""

import re
from collections.abc import Iterator
from pathlib import Path

from tests.house.tree import ROOT

README = ROOT / "README.md"
DOCS = ROOT / "docs"
_FENCE = re.compile(r"^( *)```(\w*)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
_SOURCE_PATH = re.compile(r"(?<![\w/.*-])(?:agent|gateway|kore|tests|bench|pages|evals)/[\w/.-]*")
_LINK = re.compile(r"\]\(([^)\s]+)\)|<img src=\"([^\"]+)\"")


def pages() -> list[Path]:
    names = ("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")
    return [README, *(ROOT / name for name in names), *sorted(DOCS.rglob("*.md"))]


def page(name: str) -> str:
    """Return the text of `docs/NAME.md`."""
    return (DOCS / f"{name}.md").read_text(encoding="utf-8")


def blocks(text: str, language: str) -> list[str]:
    """Return the contents of a language's fenced blocks, without their indentation."""
    return [
        "".join(line.removeprefix(indent) for line in body.splitlines(keepends=True))
        for indent, result, body in _FENCE.findall(text)
        if result == language
    ]


def sections(text: str) -> dict[str, str]:
    """Return the text below each second-level heading."""
    _, *result = re.split(r"^## ", text, flags=re.MULTILINE)
    return {head.strip(): body for head, _, body in (part.partition("\n") for part in result)}


def rows(text: str) -> Iterator[list[str]]:
    """Yield the cells of every table row."""
    for line in text.splitlines():
        if line.startswith("| "):
            yield [cell.strip() for cell in line.strip("|").split(" | ")]


def code_spans(text: str) -> set[str]:
    """Return all text in backticks outside of blocks."""
    return set(re.findall(r"`([^`\n]+)`", _FENCE.sub("", text)))


def links(text: str) -> list[str]:
    """Return the targets of links outside of code blocks."""
    return ["".join(groups) for groups in _LINK.findall(_FENCE.sub("", text))]


def source_paths(text: str) -> list[str]:
    """Return the files and folders of this repository that a page names."""
    names = [name.rstrip(".") for name in _SOURCE_PATH.findall(text)]
    # `kore/build` is the model name of an agent (docs/openai-api.md), not a path.
    return [name for name in names if not re.fullmatch(r"kore/\w+", name)]


def anchors(text: str) -> set[str]:
    """Return the headings as link anchors."""
    heads = re.findall(r"^#+ (.+)$", _FENCE.sub("", text), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}
