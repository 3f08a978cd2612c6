"""Application of edits that servers propose."""

from pathlib import Path
from typing import Any

import pytest

from agent.code.lsp.protocol.positions import path_of, uri_of
from agent.code.lsp.protocol.text_edits import apply_text_edits, edited_texts, files_of_edit
from agent.errors import ToolError


def _edit(start: tuple[int, int], end: tuple[int, int], text: str) -> dict[str, Any]:
    return {
        "range": {
            "start": {"line": start[0], "character": start[1]},
            "end": {"line": end[0], "character": end[1]},
        },
        "newText": text,
    }


def test_edits_refer_to_the_original_text() -> None:
    edits = [_edit((1, 0), (1, 1), "X"), _edit((0, 1), (0, 2), ""), _edit((0, 1), (0, 1), "-")]
    assert apply_text_edits("😀b\nc\n", [_edit((0, 2), (0, 3), "Z")], "utf-16") == "😀Z\nc\n"
    assert apply_text_edits("abc\ndef\n", edits, "utf-8") == "a-c\nXef\n"


def test_edits_at_the_same_position_keep_their_order() -> None:
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
def test_malformed_edits_are_rejected(edits: Any) -> None:
    with pytest.raises(ToolError):
        apply_text_edits("abcdef", edits, "utf-8")


def test_edit_of_several_files() -> None:
    first, second = Path("/p/a b.py"), Path("/p/中.py")
    edit = {
        "documentChanges": [
            {"textDocument": {"uri": uri_of(first)}, "edits": [_edit((0, 0), (0, 1), "x")]},
            {"textDocument": {"uri": uri_of(second)}, "edits": [_edit((0, 0), (0, 1), "a")]},
        ]
    }
    # The second file does not change.
    assert edited_texts(edit, "utf-8", lambda path: "a") == {first: ("a", "x")}


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
def test_unsupported_workspace_edits_are_rejected(edit: Any) -> None:
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
def test_path_of_uri(uri: Any, path: str | None) -> None:
    assert path_of(uri) == (Path(path) if path is not None else None)


def test_path_survives_uri_round_trip() -> None:
    for name in ("a b", "中文", "%2F", "a#b?c", "a:b", b"\xff".decode("utf-8", "surrogateescape")):
        assert path_of(uri_of(Path("/p") / name)) == Path("/p") / name
