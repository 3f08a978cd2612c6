from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.text.terminal_output import TerminalOutput

_SEQUENCES = (b"\x1b[1m", b"\x1b[2K", b"\x1b[G", b"\x1b]0;t\x07", b"\x1b]8;;x\x1b\\", b"\x1b(B")
_PIECES = st.sampled_from([b"a", b"\xc3\xa9", b"\r", b"\n", b"\x1b", b"[0", b"m", *_SEQUENCES])


def filtered(*pieces: bytes, partial_lines: bool = False) -> bytes:
    output = TerminalOutput(partial_lines=partial_lines)
    return b"".join(map(output.feed, pieces)) + output.end()


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"", b""),
        (b"no line end", b"no line end"),
        (b"one\ntwo\n\n", b"one\ntwo\n\n"),
        (b"dos\r\nline\r\n", b"dos\r\nline\r\n"),
        (b"dos\r\r\n", b"dos\r\n"),
        (b"\r\n", b"\r\n"),
        (b"10 %\r20 %\r30 %\n", b"30 %\n"),
        (b"10 %\r20 %\r\n", b"20 %\r\n"),
        (b"10 %\r20 %\r", b"20 %"),
        (b"10 %\r", b"10 %"),
        (b"\r10 %\r20 %\nBUILD FAILED\n", b"20 %\nBUILD FAILED\n"),
        (b"\x1b[1;31mred\x1b[0m and \x1b[38;5;7mgrey\x1b[m\n", b"red and grey\n"),
        (b"\x1b[1G\x1b[0K10 %\x1b[1G\x1b[0K20 %\n", b"20 %\n"),
        (b"10 %\x1b[G20 %", b"20 %"),
        (b"\x1b]0;a title\x07text\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", b"textlink"),
        (b"\x1bPq#0\x1b\\picture\x1b(B\x1b7\x1b8\x1bM", b"picture"),
        (b"cut off \x1b[3", b"cut off "),
        (b"alone \x1b\x01 here", b"alone \x01 here"),
        (b"index[0] and [1m stay\n", b"index[0] and [1m stay\n"),
    ],
)
def test_text_is_what_a_terminal_shows_at_the_end(data: bytes, text: bytes) -> None:
    assert filtered(data) == text


@given(st.lists(_PIECES, max_size=40), st.integers(1, 5))
def test_text_does_not_depend_on_the_pieces(pieces: Sequence[bytes], size: int) -> None:
    data = b"".join(pieces)
    cut = [data[at : at + size] for at in range(0, len(data), size)]
    assert filtered(*cut) == filtered(data)


@given(st.lists(_PIECES, max_size=40))
def test_partial_lines_lose_nothing_of_the_last_state(pieces: Sequence[bytes]) -> None:
    lines = filtered(*pieces, partial_lines=True).splitlines()
    assert set(filtered(*pieces).splitlines()) <= {b"", *lines}


def test_prompt_is_passed_on_at_once_with_partial_lines() -> None:
    output = TerminalOutput(partial_lines=True)
    assert output.feed(b"line\nContinue? ") == b"line\nContinue? "
    assert output.feed(b"[y/N] ") == b"[y/N] "
    assert output.feed(b"\r") == b""
    assert output.feed(b"\n") == b"\r\n"


def test_frames_after_a_partial_line_become_one_line() -> None:
    frames = [b"\r%d %%" % percent for percent in range(1, 100)]
    assert filtered(b"0 %", *frames, b"\ndone\n", partial_lines=True) == b"0 %\n99 %\ndone\n"


def test_long_line_is_passed_on_before_its_end() -> None:
    output = TerminalOutput()
    assert output.feed(b"x" * 100_000) == b"x" * 100_000
    assert output.feed(b"y\n") == b"y\n"


def test_unfinished_sequence_does_not_hold_back_the_output() -> None:
    output = TerminalOutput()
    output.feed(b"\x1b]0;")
    assert output.feed(b"x" * 100_000).endswith(b"x" * 90_000)


def test_endless_carriage_returns_are_not_kept() -> None:
    output = TerminalOutput()
    # If they were kept, they would be copied with every chunk: 500 GB in total.
    assert {output.feed(b"\r" * 1_000_000) for _ in range(1_000)} == {b""}
    assert output.feed(b"done\n") == b"done\n"
