"""Hooks of mkdocs: the menu, and the files outside docs/ that pages link to."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

from pages.reference import PAGES

ROOT = Path(__file__).parents[1]
BESIDE = (
    "README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "LICENSE", "config.example.json",
)  # fmt: skip
_SECTION = re.compile(r"\n(?=[A-Z][^\n]*:\n\n)")
_ITEM = re.compile(r"\[([^\]]+)\]\(([^)#]+\.md)\)")


def menu(index: str, decisions: str) -> list[Any]:
    """Return the menu: the sections of the index, the reference, and the decisions by subject."""
    found = [{"Home": "index.md"}, *_sections(index)]
    reference = [{name: place} for place, (name, _) in PAGES.items()]
    return [
        *found[:5],
        {"Reference": [*reference, {"Every error": "errors.md"}]},
        *found[5:],
        {"Decisions": list(_sections(decisions, folder="adr/"))},
    ]


def _sections(index: str, folder: str = "") -> Iterator[dict[str, Any]]:
    """Yield the sections of an index with their pages, each page once."""
    for section in _SECTION.split(index)[1:]:
        title = section.partition(":")[0]
        names = {place: name[0].upper() + name[1:] for name, place in _ITEM.findall(section)}
        yield {title: [{name: folder + place} for place, name in names.items()]}


def on_config(config: Any) -> Any:
    docs = Path(config["docs_dir"])
    indexes = (docs / "index.md", docs / "adr" / "index.md")
    config["nav"] = menu(*(path.read_text(encoding="utf-8") for path in indexes))
    return config


def on_files(files: Any, config: Any) -> Any:
    """Add README and similar files, which are readable but not in the menu."""
    for name in BESIDE:
        text = (ROOT / name).read_text(encoding="utf-8")
        if name.endswith(".md"):
            text = re.sub(r"(\]\(|src=\")docs/", r"\1", text)
        file = File.generated(config, name, content=text)
        file.inclusion = file.inclusion.NOT_IN_NAV
        files.append(file)
    for place, (_, make) in PAGES.items():
        files.append(File.generated(config, place, content=make()))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Rewrite links to files next to docs/, which the site has next to its pages."""
    depth = page.file.src_uri.count("/")
    for name in BESIDE:
        up = "../" * depth
        markdown = markdown.replace(f"]({up}../{name}", f"]({up}{name}")
    return markdown
