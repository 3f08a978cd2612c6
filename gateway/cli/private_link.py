"""Links with secrets, opened in a browser without appearing in the list of processes."""

import html
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


def open_privately(page: Path, link: str) -> None:
    """Open a page that only this user can read and that leads to the link. The command line of a
    browser, which every user of the machine sees, then names the page. May block."""
    page.unlink(missing_ok=True)
    write_atomic(page, _PAGE.format(link=html.escape(link)))
    webbrowser.open(page.as_uri())
