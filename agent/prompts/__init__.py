"""Every prompt is a markdown file in this package; code only fills in names."""

from functools import cache
from pathlib import Path
from string import Template


@cache
def load_prompt(name: str) -> str:
    """The text of `NAME.md`, without surrounding blank lines; `name` may hold a folder."""
    return (Path(__file__).parent / f"{name}.md").read_text("utf-8").strip()


def render_prompt(name: str, **values: object) -> str:
    """`load_prompt`, with each `$name` in it replaced. Raises KeyError when one is missing."""
    return Template(load_prompt(name)).substitute(values)
