"""Every text of the program has a translation in every language."""

import ast
import re
from collections import Counter

import pytest

from tests.house.catalogue import TRANSLATED, arguments, fields, read, text_of, texts
from tests.house.tree import PACKAGES, ROOT, parse, place, python_files

_MANY = re.compile(r"\{n(?::,)?\} (?:more )?(?!waits|works|goes|has|is|was)[a-z]+s\b")
# Counts that are never 1: limits of the program, and numbers that start at 2.
_NEVER_ONE = {
    ": {n:,} tokens, as its server states",
    "The window of {model} is unknown, so its reply ended at about {n:,} tokens. Set "
    "context_tokens of the model to allow longer replies.",
    "The request had about {n:,} tokens. If the window of the server is smaller, set "
    "context_tokens of the model.",
    ", {n} keys",
    "every {n} days at {time}",
    "every {n} weeks on {day} at {time}",
    "expected {n} arguments",
    "the text has {n:,} characters; keep it under {most:,}",
    "{n:,} lines",
    "{n:,} tokens",
    "… {n:,} characters …",
    "the queue is full ({n} messages)",
    "{n} sessions in a row made no change to {file} or {progress}",
    "“{text}” is read as every {n} days",
}


@pytest.mark.parametrize("language", TRANSLATED)
def test_catalogue_has_exactly_the_used_texts(language: str) -> None:
    known = dict(read(language))
    missing = {english: where for english, where in texts().items() if english not in known}
    assert missing == {}, "`make catalogue` lists them; docs/languages.md says how they are added"
    assert sorted(known.keys() - texts().keys()) == [], "`make catalogue` takes them out"


@pytest.mark.parametrize("language", TRANSLATED)
def test_translation_has_the_fields_of_its_text(language: str) -> None:
    englishes = [english for english, text in read(language) if fields(english) != fields(text)]
    assert englishes == []


@pytest.mark.parametrize("language", TRANSLATED)
def test_catalogue_has_one_translation_per_text(language: str) -> None:
    """Two branches may have added the same line; `make catalogue` removes the duplicate."""
    counts = Counter(english for english, _ in set(read(language)))
    assert [english for english, count in counts.items() if count > 1] == []


_TERM = re.compile(r"^\| ([^|]+) \| ([^|]+) \| ([^|]+) \| ([^|]*)\|$", re.MULTILINE)
# Parts of a text that are code or a value, and so stay in English.
_CODE = re.compile(
    r"`[^`]*`|\{[^}]*\}|\"[^\"]*\"|^\w+:|\bkore [a-z]+( [a-z]+)?|[/-]+[a-z][\w-]*"
    r"|[\w./]*[_./=]\w+|\b[A-Z]{2,}\b"
)
_TERM_EXCEPTIONS = {
    'found "{found}", expected ask or deny',
    "found a ~name without a home folder, expected a path",
    "manage access: list, approve, revoke",
    "provider {name!r}: expected a class, or a function that returns a provider; "
    "pass an instance as model instead",
    "show this help message and exit",
    "{n:,} file or folder could not be deleted: check the inbox and memory folders of the "
    "workspace.",
    "{n:,} files or folders could not be deleted: check the inbox and memory folders of the "
    "workspace.",
    "{path}: readable by other users (mode {mode:04o}), expected mode 0600",
    "{path}: the file is empty, expected default or roles",
}


def _terms() -> list[tuple[re.Pattern[str], dict[str, list[str]], list[str]]]:
    """Return English, translations and forbidden words per table row of docs/languages.md."""
    page = (ROOT / "docs" / "languages.md").read_text("utf-8").split("### Chinese terms")[1]
    rows = [[cell.strip() for cell in row] for row in _TERM.findall(page)][2:]
    return [
        (
            re.compile(
                rf"\b({re.sub(r' [(].*', '', english).replace(', ', '|')})\b", re.IGNORECASE
            ),
            {"zh-Hans": simplified.split(" / "), "zh-Hant": traditional.split(" / ")},
            [word for word in never.split("、") if word],
        )
        for english, simplified, traditional, never in rows
    ]


@pytest.mark.parametrize("language", TRANSLATED)
def test_term_has_one_translation(language: str) -> None:
    terms, result = _terms(), []
    assert len(terms) > 30
    for english, text in read(language):
        plain = "" if english in _TERM_EXCEPTIONS else _CODE.sub(" ", english)
        for term, words, never in terms:
            if term.search(plain) and not any(word in text for word in words[language]):
                result.append(f"{english!r}: {text!r} has no {words[language]}")
            result += [f"{english!r}: {text!r} has {word}" for word in never if word in text]
    assert "\n".join(result) == "", "the table of docs/languages.md says which word is used"


def test_texts_are_not_composed_before_lookup() -> None:
    """An f-string or a sum is a different key each time, and lookup fails."""
    lines = [
        place(path, argument)
        for path in python_files(*PACKAGES)
        for argument in arguments(parse(path))
        if isinstance(argument, ast.JoinedStr | ast.BinOp)
    ]
    assert lines == []


def _is_catalogue_text(node: ast.expr) -> bool:
    """Return whether this is a text in the catalogue, or a table of such texts."""
    if isinstance(node, ast.Dict):
        return all(map(_is_catalogue_text, node.values))
    return isinstance(node, ast.Call) and ast.unparse(node.func) == "mark_for_translation"


def _unknown_help(tree: ast.Module) -> list[ast.expr]:
    """Return `help=NAME` arguments whose NAME is not a marked text, nor loops over such texts."""
    lines = {
        ast.unparse(node.targets[0])
        for node in tree.body
        if isinstance(node, ast.Assign) and _is_catalogue_text(node.value)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.For | ast.comprehension) and isinstance(node.iter, ast.Call):
            items = node.iter.func
            if not isinstance(items, ast.Attribute) or items.attr != "items":
                continue
            if _is_catalogue_text(items.value) or ast.unparse(items.value) in lines:
                lines.update(ast.unparse(node.target).strip("()").split(", ")[1:])
    return [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.keyword)
        and node.arg == "help"
        and isinstance(node.value, ast.Name)
        and node.value.id not in lines
    ]


def test_help_texts_are_in_the_catalogue() -> None:
    """Such a text appears in English for all users, and no other test detects it."""
    lines = [
        place(path, name)
        for path in python_files("gateway/cli")
        for name in _unknown_help(parse(path))
    ]
    assert lines == []


def test_violations_of_the_language_rules_are_noticed() -> None:
    (argument,) = arguments(ast.parse("t(f'{n} messages')"))
    assert text_of(argument) is None
    tree = ast.parse(
        "plural(2, '{n} a', '{n} b'); t('c' if late else 'd'); mark_for_translation('e')"
    )
    assert [text_of(found) for found in arguments(tree)] == ["{n} a", "{n} b", "c", "d", "e"]
    assert fields("{n:,} of {name!r}") != fields("{n} / {name!r}")
    tree = ast.parse("A = 'a'\nB = mark_for_translation('b')\nadd(help=A)\nadd(help=B)")
    assert [ast.unparse(name) for name in _unknown_help(tree)] == ["A"]
    tree = ast.parse("D = {1: mark_for_translation('b')}\n[f(help=x) for n, x in D.items()]")
    assert _unknown_help(tree) == []
    tree = ast.parse("E = {1: 'b'}\n[f(help=x) for n, x in E.items()]")
    assert len(_unknown_help(tree)) == 1


def _name(call: ast.Call) -> str:
    """Return the name of the function, if it is called by its bare name."""
    return call.func.id if isinstance(call.func, ast.Name) else ""


def _calls_at_import(node: ast.AST) -> list[ast.Call]:
    """Return calls of `t` and `plural` that run when the module is imported."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
        return []
    is_done = isinstance(node, ast.Call) and _name(node) in ("t", "plural")
    inner = [item for child in ast.iter_child_nodes(node) for item in _calls_at_import(child)]
    return [node, *inner] if is_done and isinstance(node, ast.Call) else inner


def test_texts_are_not_translated_at_import() -> None:
    """Such a text would have the first user's language for all users."""
    lines = [
        place(path, call)
        for path in python_files(*PACKAGES)
        for call in _calls_at_import(parse(path))
    ]
    assert lines == []
    assert len(_calls_at_import(ast.parse("A = [t('a')]\ndef f(): return t('b')"))) == 1


def _many(tree: ast.Module) -> list[tuple[ast.Call, str]]:
    """Return texts with a count that have no singular form."""
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and node.args]
    return [
        (call, part.value)
        for call in calls
        if _name(call) in ("t", "mark_for_translation")
        for part in ast.walk(call.args[0])
        if isinstance(part, ast.Constant)
        and isinstance(part.value, str)
        and _MANY.search(part.value)
    ]


def test_counted_messages_have_a_singular_form() -> None:
    result = {
        text: place(path, call)
        for path in python_files(*PACKAGES)
        for call, text in _many(parse(path))
    }
    assert {text: at for text, at in result.items() if text not in _NEVER_ONE} == {}, "use plural"
    assert result.keys() >= _NEVER_ONE, "gone: take it out of the list"
    assert [text for _, text in _many(ast.parse("t('{n:,} entries', n=1)"))] == ["{n:,} entries"]
    assert _many(ast.parse("plural(1, '{n} entry', '{n} entries'); t('{n} waits')")) == []
