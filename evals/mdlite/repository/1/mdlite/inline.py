"""What happens within a line."""

import re

from mdlite.escape import escape

CODE = re.compile(r"`([^`]+)`")
STRONG = re.compile(r"\*\*(.+?)\*\*")
EMPHASIS = re.compile(r"\*(.+?)\*")
LINK = re.compile(r"\[([^\]]+)\]\(([^)\s]+)\)")


def render_inline(text):
    """The text with its marks as HTML."""
    html = escape(text)
    html = CODE.sub(r"<code>\1</code>", html)
    html = LINK.sub(r'<a href="\2">\1</a>', html)
    html = STRONG.sub(r"<strong>\1</strong>", html)
    return EMPHASIS.sub(r"<em>\1</em>", html)
