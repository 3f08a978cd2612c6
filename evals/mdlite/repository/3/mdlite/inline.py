"""What happens within a line."""

import re

from mdlite.escape import escape

CODE = re.compile(r"`([^`]+)`")
STRONG = re.compile(r"\*\*(.+?)\*\*")
EMPHASIS = re.compile(r"\*(.+?)\*")
LINK = re.compile(r"\[([^\]]+)\]\(([^)\s]+)\)")
SCHEME = re.compile(r"([a-z][a-z0-9+.-]*):", re.IGNORECASE)
SAFE_SCHEMES = {"http", "https", "mailto"}


def render_inline(text):
    """The text with its marks as HTML."""
    html = escape(text)
    html = CODE.sub(r"<code>\1</code>", html)
    html = LINK.sub(_link, html)
    html = STRONG.sub(r"<strong>\1</strong>", html)
    return EMPHASIS.sub(r"<em>\1</em>", html)


def _link(match):
    label, address = match.groups()
    scheme = SCHEME.match(address)
    if scheme and scheme[1].lower() not in SAFE_SCHEMES:
        return match[0]
    return f'<a href="{address}">{label}</a>'
