"""Program output, split anywhere, as the lines that a terminal would show."""

from gateway.presenter.text import LineBuffer


def test_lines_are_complete_for_any_chunking() -> None:
    feed = LineBuffer()
    assert [feed.feed(piece) for piece in ("on", "e\ntw", "o\n\nthr")] == [[], ["one"], ["two", ""]]
    assert feed.finish() == ["thr"]
    assert feed.finish() == []


def test_progress_bar_is_one_changing_line() -> None:
    feed = LineBuffer(5)
    assert feed.feed("10 %\r20 %\r") == []
    assert feed.latest == ["20 %"]
    assert feed.feed("100 %\r\ndone\n") == ["100 %", "done"]


def test_latest_lines_include_the_unfinished_one() -> None:
    feed = LineBuffer(2)
    feed.feed("a\nb\n\nc\nd")
    assert feed.latest == ["b", "c", "d"]


def test_split_colour_codes_are_removed() -> None:
    feed = LineBuffer()
    assert feed.feed("\x1b[3") == []
    assert feed.feed("1mred\x1b[0m\n") == ["red"]


def test_endless_line_is_bounded() -> None:
    feed = LineBuffer()
    lines = [line for _ in range(100) for line in feed.feed("x" * 1000)]
    assert lines
    assert sum(map(len, lines)) + len("".join(feed.finish())) == 100_000
