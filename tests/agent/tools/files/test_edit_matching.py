import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from agent.errors import ToolError
from agent.tools.files.edit_matching import Edit, apply


def change(text: str, old: str, new: str, *, every: bool = False) -> str:
    return apply(text, Edit(old, new, every), "f.txt")[0]


@pytest.mark.parametrize(
    ("text", "old", "new", "expected"),
    [
        ("a\nb\nc\n", "b", "X", "a\nX\nc\n"),
        ("a\nb\nc\n", "b\n", "", "a\nc\n"),
        ("a\r\nb\r\nc\r\n", "a\nb", "x\ny\nz", "x\r\ny\r\nz\r\nc\r\n"),
        ("a\r\nb\r\nc\r\n", "b", "x\ny", "a\r\nx\r\ny\r\nc\r\n"),
        ("a\r\nb\nc\n", "a\nb", "x\ny", "x\r\ny\nc\n".replace("y\n", "y\n")),
        ("a  \nb\t\nc", "a\nb\n", "x\n", "x\nc"),
        ("if x:\n    a()\n    b()\n", "a()\nb()", "c()", "if x:\n    c()\n"),
        ("\tif x:\n\t\ta()\n", "    if x:\n        a()", "    if x:\n        b()\n            c()",
         "\tif x:\n\t\tb()\n\t\t\tc()\n"),
        ("say “hi” — now", 'say "hi" - now', "bye", "bye"),
        ("  it’s\n", "it's", "is", "  is\n"),
        ("no end", "end", "END", "no END"),
        ("a\nlast", "last\n", "x\n", "a\nx"),
    ],
)  # fmt: skip
def test_edit_is_located(text: str, old: str, new: str, expected: str) -> None:
    assert change(text, old, new) == expected


def test_exact_match_wins_over_a_tolerant_one() -> None:
    assert change("  a\na\n", "\na\n", "\nb\n") == "  a\nb\n"


def test_several_matches_are_rejected_with_their_lines() -> None:
    with pytest.raises(ToolError, match=r"2 times.*lines 1, 3"):
        change("a\nb\na\n", "a", "x")


def test_overlapping_matches_count_as_several() -> None:
    with pytest.raises(ToolError, match="2 times"):
        change("aXaXa", "aXa", "b")


def test_several_tolerant_matches_are_rejected() -> None:
    with pytest.raises(ToolError, match="2 times"):
        change("  a()\n    a()\n", "\ta()", "b()")


def test_replace_all_changes_every_match() -> None:
    assert change("a\r\nb\r\na", "a", "x\ny", every=True) == "x\r\ny\r\nb\r\nx\r\ny"


def test_error_for_missing_text_shows_similar_text() -> None:
    with pytest.raises(ToolError, match=r"Similar text is at line 2:\n2\tdef total\(items\):$"):
        change("x\ndef total(items):\n", "def total(item):", "y")


def test_similar_text_is_the_one_with_most_matching_lines() -> None:
    text = "return one\n\ndef two():\n    first = 1\n    second = 2\n    return one\n"
    wanted = "def two():\n    first = 1\n    second = 3\n    return one\n"
    with pytest.raises(ToolError) as caught:
        change(text, wanted, "y")
    texts = str(caught.value).split("\n")
    assert texts[0].endswith("Similar text is at line 3:")
    assert texts[1:] == [
        "3\tdef two():",
        "4\t    first = 1",
        "5\t    second = 2",
        "6\t    return one",
    ]


def test_quoted_similar_text_is_limited() -> None:
    text = "".join(f"line number {n} {'x' * 5000}\n" for n in range(200))
    with pytest.raises(ToolError) as caught:
        change(text, text.replace("number 7 ", "number seven "), "y")
    assert len(str(caught.value)) < 3_000


@pytest.mark.parametrize("old", ["nothing like it at all", "}\n}", "\n\nzzz"])
def test_dissimilar_text_gets_no_hint(old: str) -> None:
    with pytest.raises(ToolError, match="Read the file again"):
        change("x\n}\ndef total(items):\n", old, "y")


@pytest.mark.parametrize(("old", "new"), [("", "x"), ("a", "a"), ("\n \n", "x"), ("a\r\n", "a\n")])
def test_edit_without_change_is_rejected(old: str, new: str) -> None:
    with pytest.raises(ToolError):
        change("a\nb\n", old, new)


lines = st.lists(
    st.tuples(
        st.text(alphabet="ab \t“—\u00a0é😀\r\x0b\u2028", max_size=6),
        st.sampled_from(["\n", "\r\n"]),
    ),
    max_size=8,
)


@given(lines, lines, st.text(alphabet="xy\n", max_size=5), st.text(alphabet="kq", min_size=4))
def test_text_around_an_edit_is_unchanged(
    before: list[tuple[str, str]], after: list[tuple[str, str]], new: str, key: str
) -> None:
    head = "".join(a + b for a, b in before)
    tail = "".join(a + b for a, b in after)
    result = change(f"{head}{key}{tail}", key, f"<{new}>")
    assert result.startswith(f"{head}<")
    assert result.endswith(f">{tail}")
    middle = result[len(head) : len(result) - len(tail)]
    assert middle.replace("\r\n", "\n") == f"<{new}>"


@given(lines, st.data())
def test_edit_replaces_only_the_quoted_text(
    content: list[tuple[str, str]], data: st.DataObject
) -> None:
    text = "".join(a + b for a, b in content)
    plain = text.replace("\r\n", "\n")
    assume(plain)
    start = data.draw(st.integers(0, len(plain) - 1))
    end = data.draw(st.integers(start + 1, len(plain)))
    old = plain[start:end]
    assume("\r\n" not in old)
    assume(plain.find(old) == start)
    assume(plain.find(old, start + 1) < 0)
    result = change(text, old, "§")
    assert result.count("§") == 1
    head, tail = result.split("§")
    assert text.startswith(head)
    assert text.endswith(tail)
    assert head.replace("\r\n", "\n") == plain[:start]
    assert tail.replace("\r\n", "\n") == plain[end:]
