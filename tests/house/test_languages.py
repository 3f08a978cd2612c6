"""Everything that the program says can be said in every language."""

import ast

import pytest

from tests.house.catalogue import TRANSLATED, arguments, fields, read, text_of, texts
from tests.house.tree import PACKAGES, parse, place, python_files

TEXTS = texts()


@pytest.mark.parametrize("language", TRANSLATED)
def test_every_text_has_an_entry_and_every_entry_a_text(language: str) -> None:
    known = dict(read(language))
    missing = {english: where for english, where in TEXTS.items() if english not in known}
    assert missing == {}, "`make catalogue` lists them; docs/languages.md says how they are added"
    assert sorted(known.keys() - TEXTS.keys()) == [], "`make catalogue` takes them out"


@pytest.mark.parametrize("language", TRANSLATED)
def test_a_translation_has_the_fields_of_its_text(language: str) -> None:
    found = [english for english, text in read(language) if fields(english) != fields(text)]
    assert found == []


@pytest.mark.parametrize("language", TRANSLATED)
def test_a_catalogue_says_each_text_one_way(language: str) -> None:
    """Two branches may have added the same line; `make catalogue` leaves one of them."""
    entries = read(language)
    assert sorted(set(entries)) == sorted(dict(entries).items())


def test_no_text_is_put_together_before_it_is_looked_up() -> None:
    """An f-string or a sum is another key each time, and is never found."""
    found = [
        place(path, argument)
        for path in python_files(*PACKAGES)
        for argument in arguments(parse(path))
        if isinstance(argument, ast.JoinedStr | ast.BinOp)
    ]
    assert found == []


def test_the_rules_notice_what_they_forbid() -> None:
    (argument,) = arguments(ast.parse("t(f'{n} messages')"))
    assert text_of(argument) is None
    tree = ast.parse("plural(2, '{n} a', '{n} b'); t('c' if late else 'd'); later('e')")
    assert [text_of(found) for found in arguments(tree)] == ["{n} a", "{n} b", "c", "d", "e"]
    assert fields("{n:,} of {name!r}") != fields("{n} / {name!r}")
