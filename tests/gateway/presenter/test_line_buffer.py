"""Program output, split anywhere, as the lines that a terminal would show."""

from gateway.presenter.text import LineBuffer


def test_lines_come_out_whole_wherever_the_pieces_are_cut() -> None:
    feed = LineBuffer()
    assert [feed.feed(piece) for piece in ("on", "e\ntw", "o\n\nthr")] == [[], ["one"], ["two", ""]]
    assert feed.finish() == ["thr"]
    assert feed.finish() == []


def test_a_progress_bar_is_one_line_that_changes() -> None:
    feed = LineBuffer(5)
    assert feed.feed("10 %\r20 %\r") == []
    assert feed.latest == ["20 %"]
    assert feed.feed("100 %\r\ndone\n") == ["100 %", "done"]


def test_the_latest_lines_are_kept_with_the_one_being_written() -> None:
    feed = LineBuffer(2)
    feed.feed("a\nb\n\nc\nd")
    assert feed.latest == ["b", "c", "d"]


def test_colours_cut_in_two_do_not_show() -> None:
    feed = LineBuffer()
    assert feed.feed("\x1b[3") == []
    assert feed.feed("1mred\x1b[0m\n") == ["red"]


def test_a_line_without_an_end_is_not_collected_for_ever() -> None:
    feed = LineBuffer()
    lines = [line for _ in range(100) for line in feed.feed("x" * 1000)]
    assert lines
    assert sum(map(len, lines)) + len("".join(feed.finish())) == 100_000
