"""Definitions and syntax errors from tree-sitter."""

import sysconfig
import time
from contextlib import suppress
from pathlib import Path, PurePath

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.code.symbols.languages import LANGUAGES_BY_SUFFIX
from agent.code.symbols.outline import outline, symbols_of, syntax_faults
from agent.code.symbols.parsing import MAX_BYTES
from agent.errors import ToolError

# A file per language: its text, its definitions (kind and name), and an invalid line.
FILES: dict[str, tuple[str, list[str], str]] = {
    "a.py": (
        "class Cart:\n    def total(self) -> int:\n        return 1\n\n"
        "async def main():\n    ...\n",
        ["class Cart", "function total", "function main"],
        "def (:",
    ),
    "a.js": (
        "class Cart {\n  total() { return 1 }\n}\nfunction main() {}\nconst add = (a) => a + 1\n",
        ["class Cart", "method total", "function main", "function add"],
        "function ( {",
    ),
    "a.ts": (
        "interface Priced { price(): number }\nabstract class Cart implements Priced {\n"
        "  price(): number { return 1 }\n}\nenum Kind { A }\ntype Name = string\n",
        [
            "interface Priced",
            "method price",
            "class Cart",
            "method price",
            "enum Kind",
            "type Name",
        ],
        "interface { x",
    ),
    "a.tsx": (
        "export function App(): Element {\n  return <p>hi</p>\n}\n",
        ["function App"],
        "function ( {",
    ),
    "a.go": (
        "package shop\n\ntype Cart struct{}\n\nfunc (c Cart) Total() int { return 1 }\n\n"
        "func main() {}\n",
        ["type Cart", "method Total", "function main"],
        "func ( {",
    ),
    "a.rs": (
        "struct Cart;\nimpl Cart {\n    fn total(&self) -> u8 { 1 }\n}\ntrait Priced {}\n"
        "mod inner {}\n",
        ["struct Cart", "impl Cart", "function total", "trait Priced", "module inner"],
        "fn ( {",
    ),
    "a.c": (
        "struct cart { int n; };\nstatic int total(struct cart *c) { return c->n; }\n"
        "char *name(void) { return 0; }\n",
        ["struct cart", "function total", "function name"],
        "int ( {",
    ),
    "a.cpp": (
        "namespace shop {\nclass Cart {\n  int total() { return 1; }\n};\n}\n"
        "int main() { return 0; }\n",
        ["namespace shop", "class Cart", "function total", "function main"],
        "class ( {",
    ),
    "A.java": (
        "class Cart {\n  Cart() {}\n  int total() { return 1; }\n}\ninterface Priced {}\n",
        ["class Cart", "method Cart", "method total", "interface Priced"],
        "class ( {",
    ),
    "a.rb": (
        "module Shop\n  class Cart\n    def total\n      1\n    end\n  end\nend\n",
        ["module Shop", "class Cart", "method total"],
        "def ) (",
    ),
    "a.php": (
        "<?php\nclass Cart {\n  public function total(): int { return 1; }\n}\n"
        "function main() {}\n",
        ["class Cart", "method total", "function main"],
        "function ( {",
    ),
    "A.cs": (
        "namespace Shop {\n  class Cart {\n    int Total() { return 1; }\n  }\n}\n",
        ["namespace Shop", "class Cart", "method Total"],
        "class ( {",
    ),
    "a.kt": (
        "class Cart {\n    fun total(): Int = 1\n}\nobject Shop\n",
        ["class Cart", "function total", "object Shop"],
        "fun ( {",
    ),
    "a.swift": (
        "class Cart {\n    func total() -> Int { return 1 }\n}\nprotocol Priced {}\n",
        ["class Cart", "function total", "protocol Priced"],
        "func ( {",
    ),
    "a.scala": (
        "class Cart {\n  def total: Int = 1\n}\nobject Shop {}\ntrait Priced {}\n",
        ["class Cart", "function total", "object Shop", "trait Priced"],
        "def ( {",
    ),
    "a.lua": (
        "local function total()\n  return 1\nend\nfunction main() end\n",
        ["function total", "function main"],
        "function ( (",
    ),
    "a.sh": ("total() {\n  echo 1\n}\n", ["function total"], "if then ("),
    "a.css": ("a { color: red; }\n", [], "a { color: ; } }"),
    "a.html": ("<p>hi</p>\n", [], "<p </ <"),
    "a.json": ('{"a": [1, 2]}\n', [], '{"a": '),
    "a.yaml": ("a:\n  - 1\n", [], "a: [1, 2"),
    "a.toml": ("[a]\nb = 1\n", [], "b = = 1"),
}


def test_every_language_has_a_sample() -> None:
    languages = {LANGUAGES_BY_SUFFIX[PurePath(name).suffix.lower()].name for name in FILES}
    assert languages == {language.name for language in LANGUAGES_BY_SUFFIX.values()}


@pytest.mark.parametrize("name", FILES)
def test_definitions_are_found(name: str) -> None:
    text, definitions, _ = FILES[name]
    symbols = symbols_of(text, PurePath(name))
    assert [f"{symbol.kind} {symbol.name}" for symbol in symbols] == definitions
    assert syntax_faults(text, PurePath(name)) == []


@pytest.mark.parametrize("name", FILES)
def test_invalid_line_is_found(name: str) -> None:
    text, _, wrong = FILES[name]
    faults = syntax_faults(f"{text}{wrong}\n", PurePath(name))
    assert faults
    assert all(1 <= fault.line <= text.count("\n") + 2 for fault in faults)


def test_outline_shows_lines_nesting_and_first_line() -> None:
    text = "class A:\n    @property\n    def b(self) -> int:\n        return 1\n\n\n"
    text += "def c():\n    pass\n"
    assert outline(text, PurePath("a.py")) == (
        "1-4 class A:\n  3-4 def b(self) -> int:\n7-8 def c():"
    )
    assert outline("x = (\n", PurePath("a.py")).startswith("Syntax errors:\n1:")


def test_columns_count_characters() -> None:
    (fault,) = syntax_faults('x = "苹果🍎"; y = = 2\n', PurePath("a.py"))
    assert (fault.line, fault.column, fault.text) == (1, 16, "= 2")


def test_real_code_has_no_syntax_errors() -> None:
    library = Path(sysconfig.get_path("stdlib"))
    names = ("argparse", "ast", "dataclasses", "enum", "inspect", "typing", "tarfile", "textwrap")
    for name in names:
        path = library / f"{name}.py"
        assert syntax_faults(path.read_text("utf-8"), path) == []


@settings(max_examples=100)
@given(st.sampled_from(sorted(FILES)), st.text(max_size=200))
def test_outline_of_any_text_is_bounded(name: str, text: str) -> None:
    text_of_outline = outline(text, PurePath(name))
    assert len(text_of_outline.splitlines()) <= 450
    assert all(fault.line >= 1 for fault in syntax_faults(text, PurePath(name)))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.json", "[" * 200_000),
        ("a.py", "(" * 200_000),
        ("a.cpp", "a<" * 150_000),
        ("a.py", "x" * 400_000),
        ("a.html", "<p>" * 100_000),
    ],
)
def test_hostile_text_is_parsed_or_rejected_in_time(name: str, text: str) -> None:
    with suppress(ToolError):
        # The error says that it could not be parsed in time.
        assert len(outline(text, PurePath(name))) < 100_000


@pytest.mark.parametrize(
    ("name", "text"),
    [
        # Overflows the stack of tree-sitter-yaml 0.7.2.
        ("a.yaml", "- " * 300 + "a"),
        # Keeps tree-sitter-scala 0.26.3 busy for minutes.
        ("a.scala", 's"${' * 120_000),
    ],
)
def test_text_that_crashes_its_grammar_is_rejected(name: str, text: str) -> None:
    began = time.thread_time()
    with pytest.raises(ToolError, match="It could not be parsed"):
        outline(text, PurePath(name))
    assert time.thread_time() - began < 1
    assert outline("a: 1\n", PurePath("a.yaml")) == ""


def test_too_large_or_unknown_file_is_rejected() -> None:
    with pytest.raises(ToolError, match="larger than 500 kB"):
        outline("x" * (MAX_BYTES + 1), PurePath("a.py"))
    with pytest.raises(ToolError, match=r"no grammar for files like a\.xyz"):
        outline("x", PurePath("a.xyz"))
