"""Opening of links with secrets in the browser of this machine."""

import html
import os
import sys
import webbrowser
from pathlib import Path

from gateway.config.atomic_write import write_atomic

_PAGE = """\
<!doctype html>
<meta charset="utf-8">
<meta name="referrer" content="no-referrer">
<meta http-equiv="refresh" content="0; url={link}">
<title>Kore</title>
<a href="{link}">Kore</a>
"""


def has_screen() -> bool:
    """Return whether a browser can open a window here."""
    return sys.platform == "darwin" or any(
        os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY")
    )


def open_privately(page: Path, link: str) -> None:
    """Open the link through a page that only this user can read. May block.

    The browser's command line, which every user of the machine can see, contains only the page.
    """
    page.unlink(missing_ok=True)
    write_atomic(page, _PAGE.format(link=html.escape(link)))
    webbrowser.open(page.as_uri())
