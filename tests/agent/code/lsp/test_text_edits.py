"""Changes that servers propose."""

from pathlib import Path
from typing import Any

import pytest

from agent.code.lsp.protocol.text_edits import apply_text_edits, edited_texts, files_of_edit
from agent.code.lsp.protocol.uris import path_of, uri_of
from agent.errors import ToolError


def _edit(start: tuple[int, int], end: tuple[int, int], text: str) -> dict[str, Any]:
    return {
        "range": {
            "start": {"line": start[0], "character": start[1]},
            "end": {"line": end[0], "character": end[1]},
        },
        "newText": text,
    }


def test_edits_speak_of_the_text_before() -> None:
    edits = [_edit((1, 0), (1, 1), "X"), _edit((0, 1), (0, 2), ""), _edit((0, 1), (0, 1), "-")]
    assert apply_text_edits("😀b\nc\n", [_edit((0, 2), (0, 3), "Z")], "utf-16") == "😀Z\nc\n"
    assert apply_text_edits("abc\ndef\n", edits, "utf-8") == "a-c\nXef\n"


def test_edits_at_one_place_keep_their_order() -> None:
    edits = [_edit((0, 0), (0, 0), "1"), _edit((0, 0), (0, 0), "2")]
    assert apply_text_edits("a", edits, "utf-8") == "12a"


@pytest.mark.parametrize(
    "edits",
    [
        [_edit((0, 0), (0, 2), "x"), _edit((0, 1), (0, 3), "y")],
        [_edit((0, 2), (0, 1), "x")],
        [{"newText": "x"}],
        ["x"],
        7,
    ],
)
def test_edits_without_shape_are_refused(edits: Any) -> None:
    with pytest.raises(ToolError):
        apply_text_edits("abcdef", edits, "utf-8")


def test_a_proposal_for_several_files() -> None:
    one, two = Path("/p/a b.py"), Path("/p/中.py")
    edit = {
        "documentChanges": [
            {"textDocument": {"uri": uri_of(one)}, "edits": [_edit((0, 0), (0, 1), "x")]},
            {"textDocument": {"uri": uri_of(two)}, "edits": [_edit((0, 0), (0, 1), "a")]},
        ]
    }
    # The second one stays as it is.
    assert edited_texts(edit, "utf-8", lambda path: "a") == {one: ("a", "x")}


@pytest.mark.parametrize(
    "edit",
    [
        None,
        {"documentChanges": [{"kind": "delete", "uri": "file:///p/a.py"}]},
        {"changes": {"http://example.org/a.py": [_edit((0, 0), (0, 0), "x")]}},
        {"changes": {"file://elsewhere/p/a.py": [_edit((0, 0), (0, 0), "x")]}},
        {"changes": {"file:///p/a.py": "x"}},
    ],
)
def test_what_kore_does_not_do_is_refused(edit: Any) -> None:
    with pytest.raises(ToolError):
        files_of_edit(edit)


@pytest.mark.parametrize(
    ("uri", "path"),
    [
        ("file:///a/b.py", "/a/b.py"),
        ("file:///a/%2e%2e/%2E%2E/etc/passwd", "/etc/passwd"),
        ("FILE:///a/b%20c", "/a/b c"),
        ("file:///a%00b", None),
        ("https:///a", None),
        ("file:a", None),
        ("untitled:1", None),
        ("file://[", None),
        (None, None),
    ],
)
def test_addresses(uri: Any, path: str | None) -> None:
    assert path_of(uri) == (Path(path) if path is not None else None)


def test_any_path_survives_being_an_address() -> None:
    for name in ("a b", "中文", "%2F", "a#b?c", "a:b", b"\xff".decode("utf-8", "surrogateescape")):
        assert path_of(uri_of(Path("/p") / name)) == Path("/p") / name
