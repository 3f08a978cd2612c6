"""Redaction of secrets in every encoding, whole or split into chunks."""

import base64
import json
import random
import re
from urllib.parse import quote, quote_plus

import pytest

from agent.security.redaction import MARK, Redactor

KEY = "sk-Canary/9f+3b=7QzXw~v8"
TOKEN = "123456789:AAbCdEfGh-ijKLmnop_qrstuvwxyz01234"
ODD = 'pa"ss\\wörd\n77'
SECRETS = (KEY, TOKEN, ODD)


@pytest.fixture
def redactor() -> Redactor:
    return Redactor(SECRETS)


def _spellings(value: str) -> list[str]:
    raw = value.encode()
    escaped = json.dumps(value)[1:-1]
    return [
        value,
        escaped,
        json.dumps(value, ensure_ascii=False)[1:-1],
        json.dumps(escaped)[1:-1],
        quote(value),
        quote(value, safe=""),
        quote(value, safe="").lower() if value.islower() else quote(value, safe=":"),
        *(quote(value, safe=safe) for safe in ("+", "=", "+/=", "!'()*~", ";,/?:@&=+$#")),
        quote_plus(value),
        re.sub("%..", lambda match: match[0].lower(), quote(value, safe="")),
        quote(value, safe="").replace("%2F", "%2f"),
        "".join(f"%{byte:02x}" for byte in raw),
        "".join(f"%{byte:02X}" for byte in raw),
        "".join(f"\\u{ord(char):04x}" for char in value),
        "".join(f"\\u{ord(char):04X}" for char in value),
        escaped.replace("+", "\\u002b").replace("=", "\\u003d").replace("/", "\\/"),
        raw.hex(),
        raw.hex().upper(),
        "".join(f"{byte:02x}" if byte % 2 else f"{byte:02X}" for byte in raw),
    ]


@pytest.mark.parametrize("value", SECRETS)
def test_every_spelling_is_redacted(redactor: Redactor, value: str) -> None:
    for spelled in _spellings(value):
        assert redactor.clean(f"<{spelled}>") == f"<{MARK}>", spelled


@pytest.mark.parametrize("value", SECRETS)
def test_every_spelling_is_redacted_in_a_stream(redactor: Redactor, value: str) -> None:
    for spelled in _spellings(value):
        data = f"<{spelled}>".encode()
        for size in (1, 2, 5, 31):
            stream = redactor.stream()
            text = "".join(map(stream.feed, _cut(data.decode(), size))) + stream.end()
            assert text == f"<{MARK}>", spelled
            shown = b"".join(stream.feed(data[at : at + size]) for at in range(0, len(data), size))
            assert shown + stream.end_bytes() == f"<{MARK}>".encode(), spelled


def _cut(text: str, size: int) -> list[str]:
    return [text[at : at + size] for at in range(0, len(text), size)]


@pytest.mark.parametrize("value", SECRETS)
def test_base64_of_a_longer_text_is_redacted(redactor: Redactor, value: str) -> None:
    for before in ("", "a", "ab", "KEY=", "Authorization: Bearer "):
        for encode in (base64.b64encode, base64.urlsafe_b64encode):
            encoded = encode(f"{before}{value} and more".encode()).decode()
            shown = redactor.clean(encoded)
            assert MARK in shown
            # All that is left of the value is the bits that share a character with its neighbours.
            rest = base64.urlsafe_b64decode(shown.partition(MARK)[0][: len(shown) // 4 * 4] + "==")
            assert value.encode()[:2] not in rest


def test_url_with_the_token_is_redacted(redactor: Redactor) -> None:
    for token in (TOKEN, quote(TOKEN, safe="")):
        url = f"https://api.telegram.org/bot{token}/getUpdates?offset=1"
        assert redactor.clean(url) == f"https://api.telegram.org/bot{MARK}/getUpdates?offset=1"


def test_longer_value_with_a_shorter_prefix_is_redacted_completely() -> None:
    redactor = Redactor(["a7c9e2f4b", "a7c9e2f4b6d8"])
    assert redactor.clean("a7c9e2f4b6d8 a7c9e2f4b") == f"{MARK} {MARK}"


def test_short_values_and_other_texts_are_unchanged(redactor: Redactor) -> None:
    assert Redactor(["abc", "", "12345"]).clean("abc 12345") == "abc 12345"
    assert not Redactor(["abc"])
    assert redactor.clean("nothing to see") == "nothing to see"


def test_nested_data_is_redacted(redactor: Redactor) -> None:
    data = {"a": [KEY, {"b": f"x{TOKEN}"}], KEY: 1, "n": None}
    assert redactor.clean_data(data) == {"a": [MARK, {"b": f"x{MARK}"}], MARK: 1, "n": None}


def test_repr_shows_no_value(redactor: Redactor) -> None:
    assert "Canary" not in repr(redactor) + str(vars(redactor.stream()))


def test_chunking_does_not_change_the_result(redactor: Redactor) -> None:
    text = f"a {KEY}{TOKEN} sk-Can {KEY[:-1]} {quote(TOKEN, safe='')} end {ODD}"
    whole = redactor.clean(text)
    chance = random.Random(7)
    for _ in range(300):
        stream, shown, at = redactor.stream(), "", 0
        while at < len(text):
            size = chance.choice((1, 1, 2, 3, 7, 40))
            shown += stream.feed(text[at : at + size])
            at += size
            assert not any(value in shown for value in SECRETS)
        assert shown + stream.end() == whole


def test_bytes_are_redacted_and_stay_bytes(redactor: Redactor) -> None:
    data = b"\xff\xfe " + f"{KEY} ö {ODD}".encode() + b"\x80"
    stream = redactor.stream()
    shown = b"".join(stream.feed(data[at : at + 1]) for at in range(len(data)))
    shown += stream.end_bytes()
    assert shown == b"\xff\xfe %b \xc3\xb6 %b\x80" % (MARK.encode(), MARK.encode())


def test_stream_holds_back_only_possible_values(redactor: Redactor) -> None:
    stream = redactor.stream()
    assert stream.feed("hello!") == "hello!"
    assert stream.feed(f"<{KEY[:10]}") == "<"
    assert stream.feed("!") == f"{KEY[:10]}!"


def test_overlapping_values_in_a_stream_leak_nothing() -> None:
    redactor = Redactor(["a1b2c3d4e5", "d4e5f6g7h8", "a1b2c3d4e5f6"])
    assert len(redactor.forms) >= 3
    whole = "a1b2c3d4e5f6g7h8"
    for text in (whole, whole[:-1], f"{whole[:11]}x", f"x{whole}{whole[:10]}"):
        stream = redactor.stream()
        shown = "".join(map(stream.feed, text)) + stream.end()
        assert shown == redactor.clean(text)


def test_text_full_of_near_misses_is_searched_completely() -> None:
    redactor = Redactor([f"{'a' * 60}{n:03}x9Q7z" for n in range(20)])
    near = "a" * 8_000
    assert redactor.clean(f"{near}007x9Q7z{near}") == f"{near[:-60]}{MARK}{near}"
    stream = redactor.stream()
    assert stream.feed(near) + stream.end() == near


def test_learned_secrets_are_shared() -> None:
    first, second = Redactor(), Redactor(["older-9f3b7Q"])
    first.teach(second)
    first.learn(["newer-4d8e1Z"])
    assert second.clean("newer-4d8e1Z, older-9f3b7Q") == f"{MARK}, {MARK}"
    assert first.clean("newer-4d8e1Z, older-9f3b7Q") == f"{MARK}, older-9f3b7Q"
