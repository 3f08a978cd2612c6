"""Pastes of any size in terminal input."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st
from prompt_toolkit.key_binding import KeyPress
from prompt_toolkit.keys import Keys

from gateway.cli.console.input.paste_parser import PasteParser

BEGIN, END = "\x1b[200~", "\x1b[201~"


def keys_of(pieces: list[str]) -> list[KeyPress]:
    pressed: list[KeyPress] = []
    parser = PasteParser(pressed.append)
    for piece in pieces:
        parser.feed(piece)
    return pressed


@given(st.lists(st.integers(0, 40), max_size=8))
def test_paste_is_read_wherever_the_input_is_split(cuts: list[int]) -> None:
    text = f"a{BEGIN}one\x1b[20two{END}b{BEGIN}{END}c"
    places = [0, *sorted(cuts), len(text)]
    pieces = [text[begin:end] for begin, end in pairwise(places)]
    assert [(press.key, press.data) for press in keys_of(pieces)] == [
        ("a", "a"),
        (Keys.BracketedPaste, "one\x1b[20two"),
        ("b", "b"),
        (Keys.BracketedPaste, ""),
        ("c", "c"),
    ]


def test_large_paste_is_complete() -> None:
    text = "".join(f"line {n}\n" for n in range(400_000))
    whole = f"{BEGIN}{text}{END}"
    pieces = [whole[at : at + 1024] for at in range(0, len(whole), 1024)]
    (paste,) = keys_of(pieces)
    assert paste.data == text
