"""Conversion of web pages to markdown: the main content, without scripts, menus and forms."""

import codecs
import re
from typing import Any

import lxml.html
from lxml.etree import ParserError
from markdownify import markdownify

# Converting costs about a second per megabyte.
MARKUP_LIMIT_BYTES = 2_000_000
DROPPED = ("script", "style", "noscript", "template", "svg", "nav", "form", "iframe", "canvas")
FRAME = ("header", "footer", "aside")
_STYLE: dict[str, Any] = {"heading_style": "ATX", "bs4_options": "lxml", "table_infer_header": True}
# Actual encodings of pages that declare these (https://encoding.spec.whatwg.org).
_MEANT = {
    **dict.fromkeys(
        ("iso-8859-1", "iso8859-1", "latin-1", "latin1", "ascii", "us-ascii"), "cp1252"
    ),
    **dict.fromkeys(("gb2312", "gbk", "gb_2312-80"), "gb18030"),
    **dict.fromkeys(("shift_jis", "sjis", "x-sjis"), "cp932"),
    **dict.fromkeys(("euc-kr", "ks_c_5601-1987"), "cp949"),
    **dict.fromkeys(("iso-8859-9", "latin5"), "cp1254"),
    **dict.fromkeys(("tis-620", "iso-8859-11"), "cp874"),
}
_XML_CHARSET = re.compile(rb"<\?xml[^>]{0,200}?encoding\s*=\s*[\"']([A-Za-z0-9_.:-]+)")
_META_CHARSET = re.compile(rb"<meta[^>]{0,200}?charset\s*=\s*[\"']?\s*([A-Za-z0-9_.:-]+)", re.I)
_BLANK_LINES = re.compile(r"\n[ \t]*\n(?:[ \t]*\n)+")


def to_markdown(html: str) -> str:
    """Return the title and the main part of a page; empty if it contains no text."""
    data = html.encode("utf-8", "replace")[:MARKUP_LIMIT_BYTES]
    parser = lxml.html.HTMLParser(encoding="utf-8", remove_comments=True, remove_pis=True)
    try:
        root = lxml.html.document_fromstring(data, parser=parser)
    except ParserError:
        return ""
    title = " ".join((root.findtext(".//title") or "").split())
    main = _main(root)
    text = _BLANK_LINES.sub("\n\n", _markdown(main)).strip()
    if title and title not in text[: len(title) + 20]:
        return f"# {title}\n\n{text}".strip()
    return text


def decode_page(data: bytes, charset: str | None, *, markup: bool) -> str:
    """Decode bytes: by BOM, by the server's charset, by the page's declaration, by trial."""
    for mark, name in ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"),
                       (codecs.BOM_UTF16_BE, "utf-16-be")):  # fmt: skip
        if data.startswith(mark):
            return data[len(mark) :].decode(name, "replace")
    if charset is None and markup and (match := _META_CHARSET.search(data[:4096])):
        charset = match.group(1).decode("ascii")
    if charset is None and (match := _XML_CHARSET.match(data.lstrip()[:300])):
        charset = match.group(1).decode("ascii")
    charset = charset and _MEANT.get(charset.casefold(), charset)
    for name in filter(None, (charset, "utf-8")):
        if _is_charset(name):
            try:
                return data.decode(name)
            except UnicodeDecodeError:
                if name == charset:
                    return data.decode(name, "replace")
    return data.decode("windows-1252", "replace")


def _is_charset(name: str) -> bool:
    try:
        # Codecs such as "hex" turn bytes into bytes and are not charsets: they reject text.
        "a".encode(name)
    except (LookupError, ValueError):
        return False
    return True


def _main(root: Any) -> Any:
    for tag in DROPPED:
        for element in list(root.iter(tag)):
            element.drop_tree()
    total_chars = len(" ".join(root.text_content().split()))
    for path in (".//main", ".//*[@role='main']", ".//article"):
        elements = root.findall(path)
        # A page with several articles is a front page; a small article is a teaser.
        if (
            len(elements) == 1
            and len(" ".join(elements[0].text_content().split())) * 5 >= total_chars
        ):
            return elements[0]
    body = root.find("body")
    body = root if body is None else body
    for tag in FRAME:
        for element in list(body.iter(tag)):
            if element.find(".//h1") is None:
                element.drop_tree()
    return body


def _markdown(element: Any) -> str:
    for cell in element.iter("td", "th"):
        # A line break would end the cell.
        for part in cell.iter():
            part.text = part.text and part.text.replace("|", "\\|")
            if part is not cell:
                part.tail = part.tail and part.tail.replace("|", "\\|")
    for picture in list(element.iter("img")):
        # A picture's address is useless to the model, and `data:` addresses are huge.
        picture.drop_tree()
    html = lxml.html.tostring(element, encoding="unicode")
    try:
        return str(markdownify(html, **_STYLE))
    except RecursionError:
        return str(element.text_content())
