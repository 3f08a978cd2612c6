"""A grammar of links with a canary, in which every part may have an unusual spelling."""

from collections.abc import Sequence
from random import Random

CANARY = "S3CR3T"
# An address from untrusted text, which may therefore stay.
OFFERED = "https://ok.example/a"

_SCHEMES = (
    *("https://", "https://", "http://", "//", "https&#58;//", "https:&#47;&#47;"),
    *("https&colon;//", "ht\ttps://", "&#104;ttps://", "https:/", "https:", "https:\\\\"),
    *("\\\\", "/\\", "https\\://", "", "www.", "mailto:", "HTTPS://", "&#x2f;/", "//x@"),
)
_HOSTS = (
    *("evil.example", "evil%2Eexample", "evil。example", "evil．example", "evil｡example"),
    *("evil&#46;example", "evil&period;example", "2130706433", "192.0.2.1", "[::1]"),
    *("evil\\.example", "e**vil**.example", "evil.example:80", "x@evil.example"),
    *("e\u00advil.example", "`evil.example", "e$vil.example"),
)
_PATHS = (
    *("/?s={}", "/{}", "?{}", "#{}", "/x.png?{}", "/a(b){}", "/**{}**", "\\?{}"),
    *("/{{{}}}", "/|{}"),
)
_BLANKS = ("", "", "", " ", "    ", "\t\t", "\n", " \n ", "\n> ", "\u00a0")
_TITLES = (
    *("", "", "", ' "t"', " 't'", " (t)", ' "a\nb"', "\n(a\nb)", f" '{'x' * 250}'"),
    *(' "t', ' "a" "b"', "    'far'", '"near"', " =10x10", ' "<b>"', " (`t`)"),
)
_LABELS = (
    *("x", "", "a b", "[x]", "`x`", "x\ny", "\\]", "é", "^b", "!"),
    f"[{OFFERED}]({OFFERED})",
)
_TAGS = (
    *("<a href={}>x</a>", "<img src={}>", "<img\nsrc={}>", "<IMG/src={}>"),
    *("<iframe src={} >", "<link rel=stylesheet href={}>", "<svg><image href={} /></svg>"),
    *("<video poster={}>", '<p style="background:url({})">', "<form action={}>"),
    *("<meta content={}>", "</a href={}>", "<a\n\nhref={}>", "<!-- x --><img src={}>"),
    *("<?x ?><img src={}>", "<b><img alt='>' src={}>", "<style>@import {};</style>"),
)
_QUOTES = ("'{}'", '"{}"', "{}", "`{}`", " {} ", "'{}", '"{}')
# Marks that may change the meaning of the text around them.
_MARKS = (
    *("`", "``", "```", "~~~", "$", "$$", "$$\n", "\\", "\\(", "\\[", "|", "||", "*", "**"),
    *("_", "~~", "[", "]", "![", "](", "(", ")", "<", ">", "<!--", "-->", "<pre>"),
    *("</pre>", "<script>", "\n", "\n\n", "    ", "\t", "> ", "- ", "1. ", "---\n", "+++\n"),
    *("| a | b |\n|---|---|\n", "`a` ", "`a | b` ", "a[0](x) ", "[^1]: a b c\n", "\u200b"),
    *("&#91;", "&lt;", "{", "}", "\r", "word ", ".", ":", "```x\ny\n```\n", "- ```\n  "),
    *("> ```\n> ", "```py ", "<promise>", "</promise>", "$`", "`$", "[x](#)", "[](#)"),
    *(OFFERED, f"{OFFERED} ", f"[a]({OFFERED}) ", f"<{OFFERED}>"),
)


def spelled_text(random: Random) -> str:
    """Return a text with one to three links and possibly marks at any position."""
    links = [_contained(random, _link(random)) for _ in range(random.choice((1, 1, 1, 2, 3)))]
    text = random.choice(("\n\n", "\n", " ", "")).join(links)
    for _ in range(random.choice((0, 0, 1, 1, 2, 4))):
        at = random.choice((0, len(text), random.randrange(len(text) + 1)))
        text = f"{text[:at]}{random.choice(_MARKS)}{text[at:]}"
    if random.random() < 0.1:
        at = random.randrange(len(text))
        text = text[:at] + text[at + 1 :]
    return text


def _address(random: Random) -> str:
    canary = random.choice((CANARY, CANARY, f"{CANARY}{random.choice(_MARKS)}x"))
    if random.random() < 0.1:
        # Appended to an address that may stay.
        return f"{OFFERED}{random.choice(_PATHS + _MARKS).replace('{}', '')}{canary}"
    host = random.choice(_HOSTS)
    if random.random() < 0.1:
        return f"{random.choice(_SCHEMES)}{canary}.{host}/"
    return random.choice(_SCHEMES) + host + random.choice(_PATHS).format(canary)


def _link(random: Random) -> str:
    address, label = _address(random), random.choice(_LABELS)
    target = random.choice(("{}", "{}", "<{}>")).format(address)
    target = f"{random.choice(_BLANKS)}{target}{random.choice(_TITLES)}{random.choice(_BLANKS)}"
    mark = random.choice(("!", "!", ""))
    match random.randrange(10):
        case 0 | 1 | 2:
            gap = random.choice(("", "", "", " ", "\n", "\\"))
            return f"{mark}[{label}]{gap}({target})"
        case 3 | 4:
            name = random.choice(("b", "^b", "B c", "é", "\\]", "1", label.replace("]", "")))
            use = random.choice(("{0}[{2}]", "{0}[{1}][{2}]", "{0}[{2}][]", "{0}[{1}] [{2}]"))
            definition = random.choice(("[{}]:", "> [{}]:", "- [{}]:", "   [{}]:", "> > [{}]:"))
            parts = [use.format(mark, label, name), f"{definition.format(name)}{target}"]
            random.shuffle(parts)
            return random.choice(("\n\n", "\n")).join(parts)
        case 5 | 6:
            return random.choice(_TAGS).format(random.choice(_QUOTES).format(address))
        case 7:
            bare = ("<{}>", "{}", "({})", "**{}**", "[[{}]]", "||{}||")
            return random.choice(bare).format(address)
        case 8:
            outer = (
                *("[{0}]({1})", "![{0}]({1})", "![x][{0}", "<{0}", "![x]{0}", "[{0}][{1}]"),
                *("![x][({1})](x.y)", "<[img src={1}](x.y)", "![x]![({1})](//x.y)", "*{0}*"),
            )
            return random.choice(outer).format(f"{mark}[{label}]({target})", address)
        case _:
            code = ("```{}\nx\n```", "~~~ {}\nx\n~~~", "```py {}\nx\n```", "`{}`", "${}$")
            return random.choice(code).format(
                random.choice((address, f"{mark}[{label}]({target})"))
            )


def _contained(random: Random, text: str) -> str:
    """Return the text inside a quotation, a list, a table or an emphasis."""
    match random.randrange(12):
        case 0:
            return "\n".join(f"> {line}" for line in text.split("\n"))
        case 1:
            return "- " + text.replace("\n", "\n  ")
        case 2:
            return "1. a\n   " + text.replace("\n", "\n   ")
        case 3:
            return f"| a | b |\n|---|---|\n| {text} | `c` |\n"
        case 4:
            return f"- [ ] {text}"
        case 5:
            return f"## {text}"
        case 6:
            return f"**{text}**"
        case 7:
            return f"Seen `{text}` there"
    return text


def spelled_texts(seed: int, count: int) -> Sequence[str]:
    random = Random(seed)
    return [spelled_text(random) for _ in range(count)]
