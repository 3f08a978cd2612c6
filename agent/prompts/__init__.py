"""Prompts, as markdown files in this package; code only fills in names."""

from functools import cache
from pathlib import Path
from string import Template


@cache
def load_prompt(name: str) -> str:
    """Return the text of `NAME.md` without surrounding blank lines; `name` may include a folder."""
    return (Path(__file__).parent / f"{name}.md").read_text("utf-8").strip()


def render_prompt(name: str, **values: object) -> str:
    """Return the prompt with each `$name` replaced. Raises KeyError if a value is missing."""
    return Template(load_prompt(name)).substitute(values)
