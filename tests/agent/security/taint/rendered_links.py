"""Links of a text as shown by different renderers, from strict to lenient."""

import re
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from html.parser import HTMLParser
from urllib.parse import unquote, urljoin, urlsplit

from markdown_it import MarkdownIt

from gateway.channels.telegram.outbound.render import render

_HERE = "https://kore.example/"
# Attributes without an address.
_INERT = frozenset({"alt", "title", "class", "id", "start", "align", "lang"})
_PICTURE = re.compile(r"<img\s[^>]*?src=[\"']?([^\s\"'>]+)")
_SIMPLE_PICTURE = re.compile(r"!\[[^\n]*?\]\s*\(\s*<?([^)\s>]+)")
_STYLE_ADDRESS = re.compile(r"url\(\s*[\"']?([^\"')]*)")


def targets_of_links(markdown: str) -> list[str]:
    """Return external targets of links and pictures in the rendered HTML.

    The screen also turns bare addresses into links.
    """
    return targets_of_html(_careless().render(markdown))


def pictures_of(markdown: str) -> list[str]:
    """Return the addresses of pictures, which a screen loads without a click."""
    pages = (renderer.render(markdown) for renderer in (_careless(), _strict()))
    addresses = [address for page in pages for address in _PICTURE.findall(page)]
    return addresses + _SIMPLE_PICTURE.findall(_CODE.sub("x", markdown))


def targets_of_html(html: str) -> list[str]:
    """Return all external addresses in a page."""
    texts: list[str] = []

    class Targets(HTMLParser):
        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            for name, value in attrs:
                if name == "style":
                    texts.extend(_STYLE_ADDRESS.findall(value or ""))
                elif name not in _INERT:
                    texts.append(value or "")

    Targets().feed(html)
    return list(filter(_is_elsewhere, texts))


def strict_targets(markdown: str) -> list[str]:
    """Return the targets by plain CommonMark with HTML."""
    return targets_of_html(_strict().render(markdown))


def telegram_targets(markdown: str) -> list[str]:
    """Return the targets in Telegram, which links addresses outside of code."""
    targets = []
    for part in render(markdown):
        units = part.text.encode("utf-16-le")
        for entity in sorted(part.entities, key=lambda entity: -entity.offset):
            start, end = 2 * entity.offset, 2 * (entity.offset + entity.length)
            if "url" in entity.extra:
                targets.append(str(entity.extra["url"]))
            if entity.type in ("code", "pre"):
                units = units[:start] + " ".encode("utf-16-le") + units[end:]
        linkify = _careless().linkify
        assert linkify is not None
        targets += [match.url for match in linkify.match(units.decode("utf-16-le")) or ()]
    return list(filter(_is_elsewhere, targets))


# The regular expressions of simple renderers: no escapes, and blanks are allowed.
_CODE = re.compile(
    r"^(?P<fence>`{3,}(?=[^`\n]*\n)|~{3,})[^\n]*\n.*?^ {0,3}(?P=fence)[`~]*[ \t]*$"
    r"|(?<!`)(?P<ticks>`+)(?!`)(?:(?!\n[ \t]*\n|\n`{3}|\n~{3}).)+?(?<!`)(?P=ticks)(?!`)",
    re.DOTALL | re.MULTILINE,
)
_SIMPLE = (
    re.compile(r"\[(?:[^\[\]]|\[[^\[\]]*\])*\]\s*\(\s*<?([^)\s>]*)"),
    re.compile(r"^[ \t>*+-]*\[[^\]\n]+\]:\s*<?([^\s>]+)", re.MULTILINE),
    re.compile(r"<[a-z][^>]*?=\s*[\"']?([^\s\"'>]+)", re.IGNORECASE | re.DOTALL),
)


def simple_targets(markdown: str) -> list[str]:
    """Return the targets by a renderer that searches for brackets and tags outside of code."""
    text = _CODE.sub("x", markdown)
    targets = [target for pattern in _SIMPLE for target in pattern.findall(text)]
    return list(filter(_is_elsewhere, targets))


RENDERERS: Sequence[Callable[[str], list[str]]] = (
    *(targets_of_links, strict_targets, telegram_targets, simple_targets),
)


def leaks(markdown: str, canary: str) -> Iterator[str]:
    """Yield each link with the canary, prefixed with the name of the renderer that shows it."""
    for renderer in RENDERERS:
        for target in renderer(markdown):
            if canary in target:
                yield f"{renderer.__name__}: {target}"


def _is_elsewhere(address: str) -> bool:
    try:
        host = urlsplit(urljoin(_HERE, address.replace("\\", "/"))).hostname or ""
    except ValueError:
        return True
    # Browsers reject a host that contains a bar.
    return host != "kore.example" and "|" not in unquote(host)


@cache
def _careless() -> MarkdownIt:
    reader = MarkdownIt("gfm-like", {"html": True})
    assert reader.linkify is not None
    reader.linkify.set({"fuzzy_link": True, "fuzzy_email": True})
    return reader


@cache
def _strict() -> MarkdownIt:
    return MarkdownIt("commonmark", {"html": True})
