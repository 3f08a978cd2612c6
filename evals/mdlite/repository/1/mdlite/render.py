"""Blocks as HTML."""

from mdlite.blocks import split_blocks
from mdlite.escape import escape
from mdlite.inline import render_inline


def to_html(text):
    """The HTML of a Markdown text; each block ends with a line end."""
    return "".join(_render(block) + "\n" for block in split_blocks(text))


def _render(block):
    if block.kind == "heading":
        return f"<h{block.level}>{render_inline(block.text)}</h{block.level}>"
    if block.kind == "rule":
        return "<hr>"
    if block.kind == "code":
        language = f' class="language-{block.items[0]}"' if block.items else ""
        return f"<pre><code{language}>{escape(block.text)}</code></pre>"
    if block.kind == "list":
        items = "".join(f"<li>{render_inline(item)}</li>" for item in block.items)
        return f"<ul>{items}</ul>"
    return f"<p>{render_inline(block.text)}</p>"
