"""The links of a text as a careless screen shows it: with its HTML, and one for every address."""

from html.parser import HTMLParser
from urllib.parse import urljoin, urlsplit

from markdown_it import MarkdownIt

_HERE = "https://kore.example/"


def targets_of_links(markdown: str) -> list[str]:
    """Return the addresses elsewhere that links and pictures lead to."""
    found: list[str] = []

    class Targets(HTMLParser):
        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            found.extend(value or "" for name, value in attrs if name in ("href", "src"))

    reader = MarkdownIt("gfm-like", {"html": True})
    assert reader.linkify is not None
    reader.linkify.set({"fuzzy_link": True, "fuzzy_email": True})
    Targets().feed(reader.render(markdown))
    targets = (urljoin(_HERE, address) for address in found)
    return [one for one in targets if urlsplit(one).hostname != "kore.example"]
