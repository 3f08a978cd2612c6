"""Comparison of the catalogues in `agent/languages/` with the texts in the code.

`make catalogue` sorts them, removes unused entries, and lists the missing ones.
"""

import ast
import json
import string
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType

from agent.i18n import ENGLISH, LANGUAGES
from agent.security.policy.reasons import reasons
from agent.settings import ToolSettings
from agent.tools.built_in import default_tools
from gateway.turns.tool_listing import beginning
from tests.house.tree import PACKAGES, ROOT, parse, place, python_files

FOLDER = ROOT / "agent" / "languages"
TRANSLATED = tuple(language for language in LANGUAGES if language != ENGLISH)
# Positions of the arguments that are texts, by function.
_TEXTS = {"t": (0,), "mark_for_translation": (0,), "plural": (1, 2), "Verb": (1,)}
# The store may not translate; its errors and their hints take texts of the catalogue.
_STORE_ERRORS = {"StoreError", "StoreBusy", "EncryptionKeyError"}
_TEXTS |= dict.fromkeys((*_STORE_ERRORS, "catalogue_text"), (0,))
# The first argument of these functions is a tuple of texts, which they look up.
_TUPLES = {"print_table"}
# Keywords with texts in the verbs: `gateway.cli.program` looks them up to print help.
_KEYWORDS = {"help", "unknown"}


def path_of(language: str) -> Path:
    return FOLDER / f"{language}.jsonl"


def read(language: str) -> list[tuple[str, str]]:
    """Return the entries in the order of the file."""
    lines = path_of(language).read_text("utf-8").splitlines()
    return [(english, text) for english, text in map(json.loads, lines)]


def write(language: str, entries: dict[str, str]) -> None:
    lines = (json.dumps(entry, ensure_ascii=False) for entry in sorted(entries.items()))
    path_of(language).write_text("".join(f"{line}\n" for line in lines), "utf-8")


def arguments(tree: ast.Module) -> Iterator[ast.expr]:
    """Yield texts that are looked up or marked; of a conditional expression, both branches."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            for at in _TEXTS.get(node.func.id, ()):
                yield from _choices(node.args[at]) if at < len(node.args) else ()
            if node.func.id in _STORE_ERRORS:
                yield from (word.value for word in node.keywords if word.arg == "hint")
            if node.func.id in _TUPLES and isinstance(node.args[0], ast.Tuple):
                yield from node.args[0].elts
        if isinstance(node, ast.keyword) and node.arg in _KEYWORDS:
            # An f-string is shown in English.
            yield from () if isinstance(node.value, ast.JoinedStr) else (node.value,)


def _choices(argument: ast.expr) -> Iterator[ast.expr]:
    if isinstance(argument, ast.IfExp):
        yield from _choices(argument.body)
        yield from _choices(argument.orelse)
    else:
        yield argument


def text_of(argument: ast.expr) -> str | None:
    """Return the text of a literal argument, or None."""
    value = argument.value if isinstance(argument, ast.Constant) else None
    return value if isinstance(value, str) else None


@cache
def texts() -> Mapping[str, str]:
    """Return every English text in the code, with a place that uses it."""
    result = {
        english: place(path, argument)
        for path in python_files(*PACKAGES)
        for argument in arguments(parse(path))
        if (english := text_of(argument)) is not None
    }
    return MappingProxyType({**result, **_reasons(), **_tools()})


def _reasons() -> dict[str, str]:
    """Return the reasons for approvals, as the question shows them."""
    return dict.fromkeys(reasons(), "agent/prompts/policy")


def _tools() -> dict[str, str]:
    """Return the descriptions of built-in tools, as `/tools` shows them."""
    tools = default_tools(ToolSettings())
    return {beginning(tool.description): f"agent/prompts/tools/{tool.name}.md" for tool in tools}


def fields(text: str) -> set[tuple[str, str | None, str | None]]:
    """Return a text's placeholders: name, format and conversion. Raise `ValueError`."""
    return {
        (name, form, conversion)
        for _, name, form, conversion in string.Formatter().parse(text)
        if name is not None
    }


def main() -> int:
    used_texts = texts()
    missing = 0
    for language in TRANSLATED:
        known = dict(read(language))
        write(language, {english: known[english] for english in used_texts if english in known})
        for english in sorted(used_texts.keys() - known.keys()):
            missing += 1
            print(f"{language}  {used_texts[english]}  {json.dumps(english, ensure_ascii=False)}")
    if missing:
        print(f"{missing} entries are missing: add them to agent/languages/", file=sys.stderr)
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
