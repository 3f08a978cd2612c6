"""Markdown as HTML."""

from mdlite.render import to_html

__all__ = ["to_html"]
