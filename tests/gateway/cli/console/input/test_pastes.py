"""Placeholders for pasted text, and their expansion."""

from gateway.cli.console.input.pastes import Pastes


def test_a_short_paste_stays_as_it_is() -> None:
    assert Pastes().fold("a\nb") == "a\nb"


def test_two_long_pastes_keep_apart_and_the_same_one_keeps_its_words() -> None:
    pastes = Pastes()
    result, two = "a\n" * 20, "b\n" * 20
    assert (pastes.fold(result), pastes.fold(two)) == ("[pasted 20 lines]", "[pasted 20 lines, 2]")
    assert pastes.fold(result) == "[pasted 20 lines]"
    assert pastes.whole("x [pasted 20 lines, 2] y [pasted 20 lines]") == f"x {two} y {result}"


def test_a_long_line_is_counted_in_characters() -> None:
    assert Pastes().fold("z" * 2000) == "[pasted 2,000 characters]"


def test_bracketed_text_that_was_not_pasted_is_kept() -> None:
    assert Pastes().whole("[pasted 20 lines]") == "[pasted 20 lines]"


def test_a_short_line_of_an_earlier_conversation_counts_as_typed_and_a_long_one_as_pasted() -> None:
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
