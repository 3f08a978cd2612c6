import pytest

from agent.tools.web.html import decode_page, to_markdown


def test_only_the_main_part_is_converted() -> None:
    html = """<!doctype html><html><head><title>News &amp; more</title><style>x{}</style></head>
    <body><nav>Menu</nav><header>Banner</header><main><h1>Heading</h1><p>Some <b>bold</b>
    <a href="/x">link</a>.</p><table><tr><th>A</th><th>B</th></tr><tr><td>1</td><td>2</td></tr>
    </table><script>evil()</script></main><footer>Imprint</footer></body></html>"""
    text = to_markdown(html)
    assert text.startswith("# News & more\n\n# Heading")
    assert "**bold**" in text
    assert "[link](/x)" in text
    assert "| A | B |" in text
    for word in ("Menu", "Banner", "evil", "Imprint", "x{}"):
        assert word not in text


def test_table_stays_a_table() -> None:
    html = """<main><table><tr><td>one</td><td>a|b <b>c|d</b></td></tr>
    <tr><td colspan="2">both</td></tr></table></main>"""
    assert to_markdown(html).split("\n") == [
        "| one | a\\|b **c\\|d** |", "| --- | --- |", "| both | |",
    ]  # fmt: skip


def test_teaser_article_is_not_taken_for_the_page() -> None:
    html = f"<body><article>short</article><div>{'long text ' * 50}</div></body>"
    assert "long text" in to_markdown(html)


def test_front_page_keeps_all_articles() -> None:
    text = to_markdown("<body><article>one</article><article>two</article></body>")
    assert "one" in text
    assert "two" in text


@pytest.mark.parametrize("html", ["", " ", "<!-- x -->", "<html></html>", "<script>x</script>"])
def test_page_without_text_is_empty(html: str) -> None:
    assert to_markdown(html) == ""


def test_odd_markup_is_accepted() -> None:
    assert "deep" in to_markdown("<div>" * 240 + "deep")
    assert to_markdown("<div>" * 5000 + "deep") == ""
    assert "x" in to_markdown('<?xml version="1.0" encoding="latin-1"?><p>x')
    assert "broken" in to_markdown("<p>broken <b>tags</p></i></table>")
    assert "half" in to_markdown("<p>half \ud800</p>")


@pytest.mark.parametrize(
    ("data", "charset", "text"),
    [
        ("é".encode(), None, "é"),
        ("é".encode("latin-1"), "latin-1", "é"),
        ("é".encode("latin-1"), None, "é"),
        ("é".encode("utf-16"), None, "é"),
        ("\ufeffé".encode(), "latin-1", "é"),
        ("日本".encode("shift_jis"), "Shift_JIS", "日本"),
        (b'<meta charset="shift_jis">' + "日本".encode("shift_jis"), None,
         '<meta charset="shift_jis">日本'),
        ("€ “x”".encode("cp1252"), "ISO-8859-1", "€ “x”"),
        ("镕".encode("gb18030"), "gb2312", "镕"),
        (b"<?xml version='1.0' encoding='iso-8859-2'?>" + "ł".encode("iso-8859-2"), None,
         "<?xml version='1.0' encoding='iso-8859-2'?>ł"),
        ("é".encode(), "no-such-charset", "é"),
        ("é".encode(), "hex", "é"),
        ("é".encode(), "quopri", "é"),
        ("é".encode(), "undefined", "é"),
        (b"a\xff", "utf-8", "a\ufffd"),
    ],
)  # fmt: skip
def test_charset_is_detected(data: bytes, charset: str | None, text: str) -> None:
    assert decode_page(data, charset, markup=True) == text
