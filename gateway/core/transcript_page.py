"""Conversation as a self-contained HTML page without scripts."""

import base64
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from html import escape
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING

from agent.i18n import current_locale, plural, t
from agent.text.visible import escape_invisible
from agent.types import Image, ImageFile, Message, Text, Thinking, ToolCall
from gateway.core.records import SessionInfo
from gateway.core.transcript import moment

if TYPE_CHECKING:
    from markdown_it import MarkdownIt

# Limit per result; the session has the full text.
_MAX_RESULT_CHARS = 20_000
_LINKS = ("http://", "https://", "mailto:", "#")
_PICTURES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})


def transcript_page(info: SessionInfo, messages: Sequence[Message]) -> str:
    """Return the page.

    It contains no foreign script, style or picture, and loads nothing from elsewhere.
    """
    style = (Path(__file__).parent / "transcript_page.css").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = f"default-src 'none'; img-src data:; style-src 'sha256-{digest}'"
    title = _text(info.name or info.id)
    count = plural(len(messages), "{n} message", "{n} messages")
    when = moment(info.last_active_at)[:16].replace("T", " ")
    facts = [_text(info.id), f"{when} UTC", _text(count)]
    if info.taint:
        facts.append(_text(t("received so far: {taint}", taint=info.taint.replace(",", ", "))))
    return "\n".join(
        [
            "<!doctype html>",
            f'<html lang="{escape(current_locale())}">',
            "<head>",
            '<meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            '<meta name="referrer" content="no-referrer">',
            f"<title>{title}</title>",
            f"<style>{style}</style>",
            "</head>",
            "<body>",
            f"<header><h1>{title}</h1><p>{' · '.join(facts)}</p></header>",
            "<main>",
            *_articles(messages),
            "</main>",
            f"<footer>{_text(t('Written by Kore.'))}</footer>",
            "</body>",
            "</html>",
        ]
    )


def _articles(messages: Sequence[Message]) -> Iterator[str]:
    is_open = ""
    for at, message in enumerate(messages):
        if message.role not in ("user", "assistant"):
            continue
        who = "you" if message.role == "user" else "kore"
        results = _results(messages[at + 1 :]) if message.tool_calls else {}
        inner = [
            *_parts(message),
            *(_call(call, results.get(call.id)) for call in message.tool_calls),
        ]
        if not inner:
            continue
        # The replies of one turn are grouped together.
        if who != is_open or who == "you":
            if is_open:
                yield "</div></article>"
            name = _text(t("You")) if who == "you" else "Kore"
            yield f'<article class="{who}"><h2>{name}</h2><div>'
            is_open = who
        yield from inner
    if is_open:
        yield "</div></article>"


def _results(following: Sequence[Message]) -> Mapping[str | None, Message]:
    """Return the results of a reply's calls by id.

    Ids are unique only within a reply; some vendors reuse them in the next one.
    """
    results = takewhile(lambda item: item.role == "tool", following)
    return {result.tool_call_id: result for result in results}


def _parts(message: Message) -> Iterator[str]:
    for part in message.content:
        match part:
            case Text(text) if text.strip():
                yield _markdown().render(escape_invisible(text))
            case Thinking(text) if text.strip():
                yield _details(_text(t("thoughts")), f"<pre>{_text(text)}</pre>")
            case Image(kind, data) if kind in _PICTURES:
                source = f"data:{kind};base64,{base64.b64encode(data).decode()}"
                yield f'<p><img src="{source}" alt="{_text(t("picture"))}"></p>'
            case ImageFile(path):
                yield f"<p>{_text(t('picture: {path}', path=path))}</p>"


def _call(call: ToolCall, result: Message | None) -> str:
    subject = next((str(argument) for argument in (call.arguments or {}).values()), "")
    line = f"<b>{_text(call.name)}</b> {_text(' '.join(subject.split())[:120])}"
    if result is not None and result.is_error:
        line += f' <span class="bad">{_text(t("failed"))}</span>'
    body = f"<pre>{_text(call.raw)}</pre>"
    if result is not None:
        text = result.text
        cut = f"\n… ({len(text) - _MAX_RESULT_CHARS:,})" if len(text) > _MAX_RESULT_CHARS else ""
        body += f"<pre>{_diff(text[:_MAX_RESULT_CHARS])}{cut}</pre>"
    return _details(line, body)


def _diff(text: str) -> str:
    """Return the text as HTML, with the lines of a diff in it marked."""
    if not text.startswith(("--- ", "diff --git ")) and "\n@@ " not in text:
        return _text(text)
    marks = {"+": "ins", "-": "del"}
    return "\n".join(
        f"<{tag}>{_text(line)}</{tag}>" if (tag := marks.get(line[:1])) else _text(line)
        for line in text.split("\n")
    )


def _details(summary: str, body: str) -> str:
    return f"<details><summary>{summary}</summary>{body}</details>"


def _text(text: str) -> str:
    """Return the text for an element or an attribute, every character visible."""
    return escape(escape_invisible(text))


@cache
def _markdown() -> "MarkdownIt":
    """Return a markdown parser without HTML and without pictures from elsewhere."""
    from markdown_it import MarkdownIt

    class PageMarkdown(MarkdownIt):
        def validateLink(self, url: str) -> bool:
            return url.strip().lower().startswith(_LINKS)

    options = {"html": False, "linkify": False, "highlight": _highlighted}
    return PageMarkdown("commonmark", options).enable(["table", "strikethrough"]).disable("image")


def _highlighted(code: str, language: str, _: str) -> str:
    from pygments import highlight
    from pygments.formatters import HtmlFormatter
    from pygments.lexers import get_lexer_by_name
    from pygments.util import ClassNotFound

    try:
        lexer = get_lexer_by_name(language)
    except ClassNotFound:
        return ""
    return str(highlight(code, lexer, HtmlFormatter(nowrap=True)))
