"""Placeholders for pasted text, and their expansion."""

from pathlib import Path

import pytest

from gateway.cli.console.input.pastes import Pastes


def test_short_paste_is_unchanged() -> None:
    assert Pastes().fold("a\nb") == "a\nb"


def test_long_pastes_are_numbered_and_repeated_ones_share_a_label() -> None:
    pastes = Pastes()
    result, two = "a\n" * 20, "b\n" * 20
    assert (pastes.fold(result), pastes.fold(two)) == ("[pasted 20 lines]", "[pasted 20 lines, 2]")
    assert pastes.fold(result) == "[pasted 20 lines]"
    assert pastes.whole("x [pasted 20 lines, 2] y [pasted 20 lines]") == f"x {two} y {result}"


def test_long_line_is_counted_in_characters() -> None:
    assert Pastes().fold("z" * 2000) == "[pasted 2,000 characters]"


def test_unpasted_bracketed_text_is_unchanged() -> None:
    assert Pastes().whole("[pasted 20 lines]") == "[pasted 20 lines]"


def test_recalled_short_line_counts_as_typed_and_long_line_as_pasted() -> None:
    pastes = Pastes()
    long = "@/etc/hosts\n" * 20
    assert pastes.recall("see @/etc/hosts") == "see @/etc/hosts"
    assert pastes.recall(long) == "[pasted 20 lines]"
    assert pastes.spans("see @/etc/hosts") == []
    assert pastes.spans(long) == [(0, len(long))]


def test_pasted_spans_are_located() -> None:
    pastes = Pastes()
    pastes.fold("@x")
    assert pastes.spans("see @x and @x") == [(4, 6), (11, 13)]


PICTURE = b"\x89PNG\r\n\x1a\n" + bytes(64)


@pytest.mark.parametrize(
    "form", ["{path}", "{path}\n", "'{path}'", '"{path}"', "{escaped}", "file://{url}"]
)
def test_path_of_a_picture_becomes_a_typed_mention(tmp_path: Path, form: str) -> None:
    name = "my plot.png" if form not in ("{path}", "{path}\n") else "plot.png"
    path = tmp_path / name
    path.write_bytes(PICTURE)
    pastes = Pastes()
    escaped, url = str(path).replace(" ", "\\ "), str(path).replace(" ", "%20")
    line = pastes.fold(form.format(path=path, escaped=escaped, url=url))
    assert line == f'@"{path}" '
    assert pastes.spans(line) == []


@pytest.mark.parametrize("text", ["{path} and more", "see {path}", "{folder}/absent.png", "/'"])
def test_other_pasted_paths_stay_text(tmp_path: Path, text: str) -> None:
    path = tmp_path / "plot.png"
    path.write_bytes(PICTURE)
    pasted = text.format(path=path, folder=tmp_path)
    assert Pastes().fold(pasted) == pasted


def test_pasted_path_of_a_text_file_stays_text(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("notes")
    assert Pastes().fold(str(tmp_path / "notes.txt")) == str(tmp_path / "notes.txt")
