"""Input history: lines of this folder first, in a private file of limited size."""

from pathlib import Path

from gateway.cli.console.input.history import ConsoleHistory


def test_lines_of_this_folder_come_first(tmp_path: Path) -> None:
    file = tmp_path / "history"
    here, there = ConsoleHistory(file, "/here"), ConsoleHistory(file, "/there")
    for history, line in ((here, "a\nb"), (there, "c"), (here, "d"), (there, "e"), (here, "d")):
        history.store_string(line)
    assert list(here.load_history_strings()) == ["d", "a\nb", "e", "c"]
    assert list(there.load_history_strings()) == ["e", "c", "d", "a\nb"]
    assert file.stat().st_mode & 0o777 == 0o600


def test_newer_half_of_a_long_file_is_retained(tmp_path: Path) -> None:
    file = tmp_path / "history"
    history = ConsoleHistory(file, "/here")
    for n in range(3):
        history.store_string(f"{n} " + "x" * 400_000)
    history.store_string("newest")
    texts = [line[:6] for line in history.load_history_strings()]
    assert texts == ["newest", "2 xxxx"]
    assert file.stat().st_mode & 0o777 == 0o600


def test_unwritable_history_is_ignored(tmp_path: Path) -> None:
    history = ConsoleHistory(tmp_path / "no" / "history", "/here")
    history.store_string("x")
    assert list(history.load_history_strings()) == []
